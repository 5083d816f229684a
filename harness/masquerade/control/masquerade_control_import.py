"""Executes a module that another platform owns: the positive control where there is no torch."""

# Found by the name that it has on a subject's path: this folder is put there.
import masquerade_control_foreign  # type: ignore[import-not-found]  # noqa: F401
