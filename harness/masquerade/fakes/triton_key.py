"""The compiler's part of the key of Triton's cache, by the size and time of its files instead of their bytes.

Triton reads half a gigabyte for it in every process; each check is a process of its own. What was compiled in disguise
lies in Triton's cache under keys of its own: a real run never meets it.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

from masquerade.fakes.hooks import on_import

#: The functions that answer in this process.
_answering: list[Callable[[], str]] = []


def install() -> None:
    """Answer for a Triton that is imported later."""
    on_import("triton.runtime.cache", _answer)
    on_import("triton.compiler.compiler", _answer)  # where it was before Triton 3.4


def _answer(module: Any) -> None:
    if getattr(getattr(module, "triton_key", None), "__module__", "") == module.__name__:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__)))
        module.triton_key = functools.cache(lambda: key(folder))
        _answering.append(module.triton_key)


def ask() -> None:
    """Make the key of a Triton that is loaded here, once for all forks of this process."""
    for triton_key in _answering:
        triton_key()


def key(folder: str) -> str:
    """A text that is another one when a file below `folder` is, byte code apart."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            file = os.path.join(place, name)
            found = os.stat(file)
            digest.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return f"masquerade-{digest.hexdigest()}"
