"""Executes a module that another platform owns: the positive control where there is no torch."""

import masquerade_control_foreign  # noqa: F401
