"""Identities of devices that nobody has: made from the machine's name, the same each time, and marked as made up."""

from __future__ import annotations

import hashlib
from typing import Any

#: The source that such a value carries.
SOURCE = "placeholder made from the machine's name and the device's index; no real card has it"

#: Bus number of device 0. Device n sits two further for each step, so that 120 devices fit into one domain.
_FIRST_BUS = 5


def identity(platform: str, machine: str, index: int, device_id: object) -> dict[str, Any]:
    """uuid, serial and pci_bus_id of device `index`, in the form that the platform's driver gives them."""
    digest = hashlib.sha256(f"{machine}/{index}".encode()).hexdigest()
    uuid, serial = _names(platform, digest, _bus(index), device_id)
    return {"uuid": uuid, "serial": serial, "pci_bus_id": bus_id(index)}


def _bus(index: int) -> int:
    return _FIRST_BUS + 2 * index


def bus_id(index: int) -> str:
    """`0000:05:00.0` for the first device, and so on."""
    return f"0000:{_bus(index):02x}:00.0"


def _names(platform: str, digest: str, bus: int, device_id: object) -> tuple[str, str]:
    """uuid and serial."""
    number = f"{int(digest[32:48], 16) % 10**13:013d}"
    if platform == "rocm":
        # ROCr's uuid is the serial number of the ASIC, as amdsmi gives it.
        return f"GPU-{digest[:16]}", f"0x{digest[:16]}"
    if platform == "xpu":
        # Level Zero builds it from the PCI identity, low byte first: 868011e2-0000-0000-1700-000000000000.
        chip = device_id if isinstance(device_id, int) else 0
        return f"8680{chip & 0xFF:02x}{chip >> 8 & 0xFF:02x}-0000-0000-{bus:02x}00-000000000000", number
    return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}", number


def expand(templates: list[str], count: int, devices: list[dict[str, Any]]) -> list[str]:
    """Paths with one entry per device: {n} is its index, {render} its DRM render node, {bus} its PCI bus id.

    >>> expand(["/dev/nvidiactl", "/dev/nvidia{n}"], 2, [{"pci_bus_id": ""}, {"pci_bus_id": ""}])
    ['/dev/nvidiactl', '/dev/nvidia0', '/dev/nvidia1']
    """
    paths: list[str] = []
    for template in templates:
        if "{" not in template:
            paths.append(template)
            continue
        for n in range(count):
            bus = str(devices[n]["pci_bus_id"])
            paths.append(template.replace("{n}", str(n)).replace("{render}", str(128 + n)).replace("{bus}", bus))
    return paths
