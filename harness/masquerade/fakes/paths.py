"""Which files a machine has and lacks: device nodes, driver folders, and a few files with what is in them."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable
from dataclasses import dataclass

#: Device nodes of GPU drivers, and what lists their cards. Only those that the machine lists exist, whatever the real
#: host has.
DEVICE_NODES = (
    "/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel",
    "/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes",
)  # fmt: skip

#: What else a vendor's software leaves on a host. Absent on another platform's machine, unless it lists it.
VENDOR_PATHS = {
    "cuda": ("/proc/driver/nvidia", "/sys/module/nvidia", "/usr/local/cuda"),
    "rocm": ("/sys/class/kfd", "/sys/module/amdgpu", "/opt/rocm"),
    "xpu": ("/sys/module/xe", "/sys/module/i915", "/opt/intel/oneapi"),
}

#: Where all of the above lies. A path that starts with none of them, nor with a folder of a path that the machine
#: lists, goes straight to the real functions.
ROOTS = ("/dev", "/proc", "/sys", "/opt", "/usr/local")

#: Names without a suffix that are files all the same.
_FILE_NAMES = frozenset({"version", "version-dev", "information"})


@dataclass(frozen=True)
class Entry:
    """A path that the machine has. `content` makes the text of a file, or raises UnknownValueError."""

    path: str
    mode: int
    content: Callable[[], str] | None = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_device(self) -> bool:
        return stat.S_ISCHR(self.mode)

    def stat(self) -> os.stat_result:
        """As stat() gives it: owned by root, times zero, device numbers where they are the same on all hosts."""
        fields = (self.mode, zlib.crc32(self.path.encode()), 0, 1, 0, 0, 0, 0, 0, 0)
        return os.stat_result(fields, {"st_rdev": _device_number(self.path) if self.is_device else 0})


def _device_number(path: str) -> int:
    """Major 195 is nvidia's and 226 is drm's (Documentation/admin-guide/devices.txt); others are given at boot."""
    name = path.rpartition("/")[2]
    if path.startswith("/dev/dri/"):
        digits = name.lstrip("abcdefghijklmnopqrstuvwxyzD")
        return os.makedev(226, int(digits)) if digits.isdigit() else 0
    if name == "nvidiactl":
        return os.makedev(195, 255)
    number = name.removeprefix("nvidia")
    return os.makedev(195, int(number)) if number.isdigit() else 0


class Paths:
    """The paths of a machine, by name, with the folders that lead to them."""

    def __init__(self, platform: str, devices: list[str], paths: list[str]) -> None:
        self.entries: dict[str, Entry] = {}
        self.children: dict[str, set[str]] = {}
        foreign = [path for owner, owned in VENDOR_PATHS.items() if owner != platform for path in owned]
        # What the machine lists of another vendor's is there, with all that the real host has below it.
        unlisted = (path for path in foreign if not any(listed.startswith(path) for listed in paths))
        self.hidden: tuple[str, ...] = (*DEVICE_NODES, *unlisted)
        for path in devices:
            self.add(path, stat.S_IFCHR | 0o666)
        for path in paths:
            self.add(path, (stat.S_IFREG | 0o644) if _is_file(path, paths) else (stat.S_IFDIR | 0o755))

    @property
    def parents(self) -> frozenset[str]:
        """Folders whose listing is not the real host's."""
        return frozenset(self.children) | {path.rpartition("/")[0] for path in self.hidden}

    @property
    def roots(self) -> tuple[str, ...]:
        """What a path that matters here starts with."""
        mine = (*self.entries, *self.hidden)
        others = {path.rpartition("/")[0] for path in mine if not path.startswith(ROOTS)}
        return ROOTS + tuple(sorted(others))

    def add(self, path: str, mode: int, content: Callable[[], str] | None = None) -> None:
        """Make a path exist, and the folders above it."""
        path = path.rstrip("/")
        self.entries[path] = Entry(path, mode, content)
        above, _, name = path.rpartition("/")
        while above and name not in self.children.setdefault(above, set()):
            self.children[above].add(name)
            if above not in self.entries and (self.is_hidden(above) or not os.path.lexists(above)):
                self.entries[above] = Entry(above, stat.S_IFDIR | 0o755)
            above, _, name = above.rpartition("/")

    def hide(self, path: str) -> None:
        """Make a path of the real host absent, and all that starts with it."""
        self.hidden += (path,)

    def is_hidden(self, path: str) -> bool:
        """Whether a path of the real host is not the machine's."""
        return path.startswith(self.hidden) and path not in self.entries

    def listing(self, folder: str, real: list[str]) -> list[str]:
        """The names in a folder: those of the real host that are not hidden, then the machine's own."""
        shown = [name for name in real if not self.is_hidden(f"{folder}/{name}")]
        return shown + sorted(self.children.get(folder, set()).difference(shown))


def _is_file(path: str, paths: list[str]) -> bool:
    """A machine's file lists paths and not what they are: a name with a suffix, or below bin, is a file's."""
    if path.endswith("/") or any(other.startswith(path + "/") for other in paths):
        return False
    above, _, name = path.rpartition("/")
    return name in _FILE_NAMES or above.endswith("/bin") or ("." in name.strip(".") and not name[-1:].isdigit())
