"""amd-smi: list, static and version, as text and JSON.

What a machine's file does not hold is N/A, as the tool writes what the driver does not give. Source of formats: the AMD
SMI CLI manual, and outputs of ROCm 6.3 to 7.2 in public bug reports.
"""

from __future__ import annotations

import json
from typing import Any

from ..world import Device, NoAnswerError, World

NOT_LOADED = "ERROR:root:Drivers not loaded (amdgpu, amd_hsmp drivers not found in modules)\n"


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What `amd-smi arguments` writes, and its exit status."""
    if world.management("amdsmi") == "absent":
        raise NoAnswerError(world.id, name, "the library that it stands on, AMD SMI, is absent there")
    if world.management("amdsmi") == "failing":
        return NOT_LOADED, 255
    command = next((word for word in arguments if not word.startswith("-")), "")
    rows = [_ROWS[command](world, index, card) for index, card in _chosen(world, arguments)] if command in _ROWS else []
    as_json = "--json" in arguments
    if command == "version":
        version = {
            "tool": "AMDSMI Tool",
            "version": "N/A",
            "amdsmi_library_version": str(world.known("packages.present.amdsmi.version", "N/A")),
            "rocm_version": str(world.known("driver.runtime", "N/A")),
            "amdgpu_version": str(world.known("driver.version", "N/A")),
        }
        if as_json:
            return json.dumps([version], indent=4) + "\n", 0
        return (
            f"AMDSMI Tool: N/A | AMDSMI Library version: {version['amdsmi_library_version']} | "
            f"ROCm version: {version['rocm_version']} | amdgpu version: {version['amdgpu_version']}\n"
        ), 0
    if command not in _ROWS:
        return f"usage: amd-smi [-h]  ...\n\nAMD System Management Interface | ROCm version: {_rocm(world)}\n", 0
    if as_json:
        return json.dumps({"gpu_data": rows} if command == "static" else rows, indent=4) + "\n", 0
    return "".join(_text(row) + "\n" for row in rows), 0


def _rocm(world: World) -> str:
    return str(world.known("driver.runtime", "N/A"))


def _chosen(world: World, arguments: list[str]) -> list[tuple[int, Device]]:
    """All cards, or the one whose number follows -g."""
    cards = list(enumerate(world.cards("rocm")))
    for option in ("-g", "--gpu"):
        if option in arguments[:-1]:
            wanted = arguments[arguments.index(option) + 1]
            cards = [item for item in cards if wanted in (str(item[0]), "all", item[1].known("pci_bus_id"))]
    return cards


def _list(world: World, index: int, card: Device) -> dict[str, Any]:
    return {
        "gpu": index,
        "bdf": card.known("pci_bus_id", "N/A"),
        "uuid": card.known("uuid", "N/A"),
        "kfd_id": "N/A",
        "node_id": card.index + 1,
        "partition_id": 0,
    }


def _static(world: World, index: int, card: Device) -> dict[str, Any]:
    serial, total, limit = card.known("serial"), card.known("total_memory"), card.known("power_limit")
    return {
        "gpu": index,
        "asic": {
            "market_name": card.known("market_name", "N/A"),
            "vendor_id": card.known("pci_vendor_id", "N/A"),
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "subvendor_id": "N/A",
            "device_id": card.known("pci_device_id", "N/A"),
            "subsystem_id": "N/A",
            "rev_id": "N/A",
            "asic_serial": f"0x{int(str(serial), 16):016X}" if serial else "N/A",
            "oam_id": "N/A",
            "num_compute_units": card.known("multi_processor_count", "N/A"),
            "target_graphics_version": card.known("arch", "N/A"),
        },
        "bus": {"bdf": card.known("pci_bus_id", "N/A")},
        "limit": {"max_power": {"value": limit, "unit": "W"} if limit else "N/A"},
        "driver": {"name": "amdgpu", "version": world.known("driver.version", "N/A")},
        "vram": {
            "type": "N/A",
            "vendor": "N/A",
            "size": {"value": total >> 20, "unit": "MB"} if total else "N/A",
            "bit_width": card.known("memory_bus_width", "N/A"),
        },
    }


_ROWS = {"list": _list, "static": _static}


def _text(row: dict[str, Any], depth: int = 0) -> str:
    lines = []
    for key, value in row.items():
        title = "    " * depth + key.upper()
        if isinstance(value, dict) and set(value) == {"value", "unit"}:
            value = f"{value['value']} {value['unit']}"
        if isinstance(value, dict):
            lines.append(f"{title}:\n" + _text(value, depth + 1))
        else:
            lines.append(f"{title}: {value}\n")
        if key == "gpu":
            depth = 1
    return "".join(lines)
