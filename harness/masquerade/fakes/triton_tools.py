"""What Triton's assemblers say of their versions, asked once for all forks of a process.

Triton asks `ptxas --version` twice a process before it looks into its cache, and each check is a process of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from masquerade.fakes.hooks import on_import

#: Triton's modules that start an assembler.
_ASKING = ("triton.knobs", "triton.backends.nvidia.compiler")

#: A question, by the look of the program's file -> the answer.
_said: dict[str, bytes] = {}


def install() -> None:
    """Answer a Triton that is imported later from what was asked before; without that, it asks itself."""
    for name in _ASKING:
        on_import(name, _answer)


def _answer(module: Any) -> None:
    # Not imported here: it takes over how programs are started, and that is changed before a subject imports it.
    real = sys.modules.get("subprocess")
    if real is not None and vars(module).get("subprocess") is real:
        module.subprocess = _Subprocess(real)


class _Subprocess:
    """Stands in for the module `subprocess` in Triton's modules."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def check_output(self, argv: Sequence[str], **options: Any) -> Any:
        said = _said.get(_question(argv, options))
        if said is None:
            return self._real.check_output(argv, **options)
        sys.audit("os.posix_spawn", argv[0], argv, None)  # to those who watch, the program starts
        return said


def _question(argv: Sequence[str], options: Mapping[str, Any]) -> str:
    """A text that is another one when the program's file is; "" where there is no such file."""
    try:
        found = os.stat(argv[0])
    except (OSError, TypeError, ValueError, IndexError):
        return ""
    return f"{argv!r} {sorted(options.items())} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"


def ask() -> None:
    """Ask the assemblers that came with the Triton that is loaded here, if one for CUDA is."""
    import subprocess

    module = sys.modules.get("triton.backends.nvidia.compiler")
    folder = os.path.join(os.path.dirname(getattr(module, "__file__", None) or ""), "bin")
    with suppress(OSError):
        for name in sorted(os.listdir(folder) if module is not None else ()):
            argv = [os.path.join(folder, name), "--version"]
            for options in ({"stderr": subprocess.STDOUT}, {}) if name.startswith("ptxas") else ():
                with suppress(subprocess.SubprocessError):
                    _said[_question(argv, options)] = subprocess.check_output(argv, **options)  # type: ignore[call-overload]
