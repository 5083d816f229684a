"""Where the subject's interpreter keeps things: what a stack is read by."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from binascii import crc32
from contextlib import suppress
from typing import Any


def where_things_lie() -> dict[str, Any]:
    """The version, folders of the standard library and of torch, if it is there, and sys.path. Imports nothing."""
    paths = sysconfig.get_paths()
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    origin = spec.origin if spec is not None else None
    return {
        "python": sys.version.split()[0],
        "torch_folders": [os.path.dirname(origin)] if origin else [],
        "stdlib": sorted({paths["stdlib"], paths["platstdlib"]}),
        "path": [entry for entry in sys.path if isinstance(entry, str)],
    }


def loaded() -> int:
    """A checksum of the files of all modules that this process has loaded: names, sizes and times."""
    made = 0
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted(file for file in files if isinstance(file, str)):
        with suppress(OSError):
            found = os.stat(file)
            look = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            made = crc32(f"{file} {look}\n".encode("utf-8", "surrogateescape"), made)
    return made


#: Modules of the standard library that ask programs of the host by themselves: their processes are nobody's fault.
INNOCENT = frozenset({"platform", "ctypes.util", "uuid", "sysconfig"})
