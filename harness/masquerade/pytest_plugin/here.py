"""What hardware is really here, in the words of the hardware marks. Imports no torch and opens no device."""

from __future__ import annotations

import os
import platform as host
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from masquerade.machines.hardware import look


@dataclass(frozen=True)
class Device:
    """One device, or the CPU. `archs` is empty where the arch cannot be told."""

    name: str
    archs: frozenset[str]

    def __str__(self) -> str:
        short = sorted(self.archs)[0] if len(self.archs) == 1 else "" if self.archs else "of an unknown arch"
        return " ".join(word for word in (self.name, f"({short})" if short and short != self.name else "") if word)


@dataclass(frozen=True)
class Hardware:
    """The devices of one platform that a test could use, and why there are no more."""

    devices: tuple[Device, ...]
    missing: str = ""

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(map(str, self.devices))) or f"none ({self.missing})"


@cache
def hardware(platform: str) -> Hardware:
    """The hardware of a platform, after the variables that hide devices."""
    if platform == "cpu":
        return Hardware((Device(host.machine(), frozenset({host.machine(), *_flags()})),))
    found = next(each for each in _look() if each.platform == platform)
    devices = tuple(Device(_name(platform, text), _archs(platform, text)) for text in found.devices)
    shown = visible(platform, devices, os.environ)
    if devices and not shown:
        return Hardware((), f"{_hiding(os.environ)} hides all of {', '.join(map(str, devices))}")
    return Hardware(shown, ", ".join(found.missing))


@cache
def _look() -> Any:
    return look()


class _Unnamed:
    """A device of which the variables can know the place alone."""

    def known(self, key: str, default: Any = None) -> Any:
        return default


_HIDING = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ONEAPI_DEVICE_SELECTOR",
)


def visible(platform: str, devices: tuple[Device, ...], environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices that the driver's variables leave. Devices named by UUID cannot be told apart here: all are left."""
    from masquerade.fakes.visible import indices

    if any(prefix in environ.get(name, "") for name in _HIDING for prefix in ("GPU-", "MIG-")):
        return devices
    try:
        return tuple(devices[place] for place in indices(platform, [_Unnamed() for _ in devices], environ))
    except RuntimeError:  # a selector that the driver refuses
        return ()


def _hiding(environ: Mapping[str, str]) -> str:
    return " ".join(f"{name}={environ[name]}" for name in _HIDING if name in environ)


def _name(platform: str, text: str) -> str:
    return text.split(",")[0].strip() if platform == "cuda" else text


def _archs(platform: str, text: str) -> frozenset[str]:
    """The arch of a device as `masquerade.machines.hardware` describes it; of a name alone the zoo may know it."""
    if platform == "cuda":
        capability = re.search(r",\s*(\d+)\.(\d)\s*,", text)
        if capability:
            return frozenset({f"sm_{capability[1]}{capability[2]}"})
    if platform == "rocm":
        return frozenset({text})
    return _known(platform).get(text, frozenset()) | _known(platform).get(_pci(text), frozenset())


def _pci(text: str) -> str:
    found = re.search(r"0x[0-9a-f]{4}", text)
    return found[0] if found else ""


@cache
def _known(platform: str) -> dict[str, frozenset[str]]:
    """Names and PCI ids of the zoo's devices -> archs."""
    from masquerade.machines import zoo

    found: dict[str, frozenset[str]] = {}
    for machine in zoo().machines():
        for device in machine.devices if machine.platform == platform else ():
            for name in (device.get("name"), device.get("pci_device_id")):
                if isinstance(name, str) and name != "unknown":
                    found[name] = found.get(name, frozenset()) | {machine.arch}
    return found


def _flags() -> frozenset[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            row = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(row.partition(":")[2].split())
