"""The machine's command-line tools: real programs in a private folder, and a PATH without another machine's tools."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..world import World

try:
    import posix as _files  # the real functions, also in a process that wears the fakes of files.py
except ImportError:  # not on Windows, where no disguise runs
    import os as _files  # type: ignore[no-redef]

#: Program -> the module beside this one that answers for it.
PROGRAMS = {
    "nvidia-smi": "nvidia_smi",
    "nvcc": "compilers",
    "ptxas": "compilers",
    "cuobjdump": "compilers",
    "rocm-smi": "rocm_smi",
    "rocminfo": "rocminfo",
    "rocm_agent_enumerator": "rocminfo",
    "amd-smi": "amd_smi",
    "hipcc": "compilers",
    "xpu-smi": "xpu_smi",
    "sycl-ls": "xpu_smi",
}

#: Programs by which software tells a platform; those of another platform must not be found.
TELLING = {
    "cuda": ("nvidia-smi", "nvcc", "ptxas", "cuobjdump", "nvdisasm", "fatbinary", "nvlink", "nsys", "ncu", "cuda-gdb"),
    "rocm": ("rocm-smi", "rocminfo", "rocm_agent_enumerator", "amd-smi", "hipcc", "hipconfig", "rocprof", "rocprofv3"),
    "xpu": ("xpu-smi", "sycl-ls", "icpx", "icx", "dpcpp"),
}

#: What build() made of the PATH of then: looking through all of its folders again takes half a millisecond a check.
_REMEMBERED = "path.json"

_LAUNCHER = """\
#!/bin/sh
exec {python} -I -S -c {code} {folder} {name} "$@"
"""
_CODE = "import sys; sys.path.insert(0, {root!r}); from masquerade.fakes.tools.run import main; main(sys.argv[1:])"


def build(folder: str, machine: Mapping[str, Any], python: str) -> None:
    """Make the tools of a machine in `folder`, once for a run. They are run by the interpreter `python`.

    `machine` is plain JSON as Machine.to_json() gives it. A tool that the machine lists and nobody answers for here
    stays what the real host has.
    """
    programs = os.path.join(folder, "bin")
    os.makedirs(programs, exist_ok=True)
    with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
        json.dump(machine, file)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    code = _CODE.format(root=root)
    for name in _listed(machine):
        if name in PROGRAMS:
            path = os.path.join(programs, name)
            words = {"python": python, "code": code, "folder": folder, "name": name}
            with open(path, "w", encoding="utf-8") as file:
                file.write(_LAUNCHER.format(**{key: shlex.quote(word) for key, word in words.items()}))
            os.chmod(path, 0o755)
    path = os.environ.get("PATH", os.defpath)
    masked = masked_path(path, folder, machine)
    with open(os.path.join(folder, _REMEMBERED), "w", encoding="utf-8") as file:
        json.dump([path, masked], file)


def use(world: World, folder: str) -> None:
    """Put the tools in `folder` first on this process's PATH, and take other machines' tools off it."""
    path = os.environ.get("PATH", os.defpath)
    with open(os.path.join(folder, _REMEMBERED), encoding="utf-8") as file:
        seen, masked = json.load(file)
    os.environ["PATH"] = masked if seen == path else masked_path(path, folder, world.machine)


def masked_path(path: str, folder: str, machine: Mapping[str, Any]) -> str:
    """`path` with the machine's own tools first, and with a mirror for each folder that holds a tool it does not have.

    A mirror holds links to all else that the folder holds. It is made at its first use.
    """
    absent = _absent(machine)
    programs = os.path.join(folder, "bin")
    entries = [programs]
    for entry in path.split(os.pathsep):
        if entry.startswith(folder):  # masked before
            entries += [entry] if entry != programs else []
        elif entry:
            entries.append(_mirror(entry, folder, absent))
    return os.pathsep.join(entries)


def _listed(machine: Mapping[str, Any]) -> list[str]:
    tools = (machine.get("host") or {}).get("tools") or []
    return list(tools) if isinstance(tools, list) else []


def _absent(machine: Mapping[str, Any]) -> frozenset[str]:
    """Programs that are not to be found: all telling ones of other platforms, and answered ones that are not listed."""
    foreign = {name for platform, names in TELLING.items() if platform != machine["platform"] for name in names}
    return frozenset((foreign | set(PROGRAMS)).difference(_listed(machine)))


def _mirror(entry: str, folder: str, absent: frozenset[str]) -> str:
    """The folder to search in the place of `entry`."""
    mirror = os.path.join(folder, "mirrors", f"{zlib.crc32(entry.encode()):08x}", "bin")
    if _exists(mirror):
        return mirror
    if not any(_exists(os.path.join(entry, name)) for name in absent):
        return entry
    above = os.path.dirname(os.path.abspath(entry))
    making = f"{mirror}.{os.getpid()}"
    os.makedirs(making)
    for name in _files.listdir(entry):
        if name not in absent:
            os.symlink(os.path.join(os.path.abspath(entry), name), os.path.join(making, name))
    if _exists(os.path.join(above, "pyvenv.cfg")):
        # A virtual environment is found from beside its interpreter's folder.
        for name in ("pyvenv.cfg", "lib", "lib64", "include"):
            link = os.path.join(os.path.dirname(mirror), name)
            if _exists(os.path.join(above, name)):
                with suppress(FileExistsError):
                    os.symlink(os.path.join(above, name), link)
    try:
        os.rename(making, mirror)
    except OSError:  # another process was faster
        shutil.rmtree(making)
    return mirror


def _exists(path: str) -> bool:
    try:
        mode = _files.stat(path).st_mode
    except OSError:
        return False
    return bool(stat.S_IFMT(mode))
