"""nvcc, ptxas, cuobjdump and hipcc: their versions. To compile, the real program is run where the host has one."""

from __future__ import annotations

import os
import shutil

from ..world import NoAnswerError, World

TITLES = {
    "nvcc": "NVIDIA (R) Cuda compiler driver",
    "ptxas": "NVIDIA (R) Ptx optimizing assembler",
    "cuobjdump": "NVIDIA (R) cuobjdump",
}


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What `name arguments` writes, and its exit status. Does not return where the real program runs.

    Raises NoAnswerError where the host has none, and UnknownValueError for a version that the machine's file lacks.
    """
    if arguments and arguments[0] in ("--version", "-V"):
        return _hip(world) if name == "hipcc" else _cuda(world, name), 0
    path = os.pathsep.join(folder for folder in os.environ.get("PATH", "").split(os.pathsep) if not _is_own(folder))
    program = shutil.which(name, path=path)
    if program is None:
        raise NoAnswerError(world.id, name, "there is no such program on this host to do the work")
    os.execv(program, [program, *arguments])


def _is_own(folder: str) -> bool:
    """Whether a folder on PATH holds masquerade's programs: machine.json lies beside it."""
    return os.path.exists(os.path.join(os.path.dirname(folder.rstrip("/")), "machine.json"))


def _cuda(world: World, name: str) -> str:
    """The lines whose values are known: no build date and no patch number."""
    release = world.get("torch.cuda", f"{name} --version")
    return f"{name}: {TITLES[name]}\nCopyright (c) 2005-2025 NVIDIA Corporation\n" + (
        f"Cuda compilation tools, release {release}, V{release}\n"
    )


def _hip(world: World) -> str:
    version = world.get("torch.hip", "hipcc --version")
    home = world.known("host.env.ROCM_HOME") or "/opt/rocm"
    return (
        f"HIP version: {version}\n"
        f"Target: {world.known('host.machine', 'x86_64')}-unknown-linux-gnu\n"
        f"Thread model: posix\nInstalledDir: {home}/lib/llvm/bin\n"
    )
