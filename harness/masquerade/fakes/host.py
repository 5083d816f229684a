"""The host around the devices: environment, architecture, /proc/cpuinfo, device nodes and paths.

os.cpu_count() and its like stay the real host's: thread pools are sized by them, and real processors run the threads.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import Any

from . import cpuinfo, files, hooks
from .paths import Paths
from .world import World


def install(world: World) -> dict[str, str | None]:
    """Give the process the machine's host. Returns the environment variables that it set; None for those it unset."""
    _set_uname(world)
    files.install(files.Files(world, _paths(world)))
    return set_environment(world)


def set_environment(world: World) -> dict[str, str | None]:
    """Set and unset the variables that the machine's file names."""
    wanted: dict[str, str | None] = dict(world.known("host.env", {}))
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return wanted


def _set_uname(world: World) -> None:
    """os.uname(), and what the platform module makes of it."""
    machine, system = world.known("host.machine"), world.known("host.system")
    if not machine:
        return
    real = os.uname
    if (machine, system or "Linux") == (real().machine, real().sysname):
        return

    def uname() -> os.uname_result:
        """Return an object identifying the current operating system."""
        was = real()
        return os.uname_result((system or was.sysname, was.nodename, was.release, was.version, machine))

    uname.__module__, uname.__qualname__ = "os", "uname"
    os.uname = uname

    def platform(module: Any) -> None:
        module._uname_cache = None
        if hasattr(module, "_platform_cache"):
            module._platform_cache.clear()
        # It runs `uname -p`, which says `arm` on macOS and the machine on most distributions of Linux.
        processor = "arm" if system == "Darwin" else machine
        module._Processor.get = staticmethod(lambda: processor)

    hooks.on_import("platform", platform)


def _paths(world: World) -> Paths:
    paths = Paths(world.platform, world.known("host.dev", []), world.known("host.paths", []))
    if world.known("host.system") == "Darwin":
        paths.hide("/proc/cpuinfo")  # macOS has no /proc; the rest of it the interpreter itself needs
    elif not _leaves_cpu_open(world):
        count = os.cpu_count() or 1
        paths.add("/proc/cpuinfo", stat.S_IFREG | 0o444, lambda: cpuinfo.render(world, count))
    for path in list(paths.entries):
        content = _nvidia_card if path.startswith("/proc/driver/nvidia/gpus/") else _CONTENTS.get(path)
        if content and not paths.entries[path].is_folder:
            paths.add(path, stat.S_IFREG | 0o444, partial(content, world, path))
    return paths


def _leaves_cpu_open(world: World) -> bool:
    """Whether the real /proc/cpuinfo will do: the machine's file says nothing of its CPU, and the architecture fits."""
    return cpuinfo.says_nothing(world) and world.known("host.machine") in (None, os.uname().machine)


def _nvidia_version(world: World, path: str) -> str:
    """The first line of the driver's version file, without date and compiler, which no machine's file holds."""
    machine = world.get("host.machine", path)
    version = world.get("driver.version", path)
    return f"NVRM version: NVIDIA UNIX {machine} Kernel Module  {version}\n"


def _nvidia_card(world: World, path: str) -> str:
    """What the driver says of the card whose PCI bus id is in the path; lines of unknown values are left out."""
    for place, card in enumerate(world.cards("cuda")):
        if f"/{card.known('pci_bus_id')}/" in path:
            rows = {
                "Model": card.known("name"),
                "GPU UUID": card.known("uuid"),
                "Bus Location": card.known("pci_bus_id"),
                "Device Minor": place,
            }
            return "".join(f"{key + ':':<15} {value}\n" for key, value in rows.items() if value is not None)
    return str(world.get("devices.pci_bus_id", path))


_CONTENTS = {
    "/proc/driver/nvidia/version": _nvidia_version,
    "/opt/rocm/.info/version": lambda world, path: f"{world.get('driver.runtime', path)}\n",
}
