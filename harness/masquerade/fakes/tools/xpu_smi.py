"""xpu-smi discovery, as table and JSON, and sycl-ls.

Source of formats: intel/xpumanager's manual, intel/llvm's sycl-ls, and their outputs in public bug reports.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from ..world import Device, World


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What the tool writes, and its exit status."""
    if name == "sycl-ls":
        return _sycl(world), 0
    if world.management("xpu-smi") != "ok":
        return "Error: Level Zero Initialization Error\n", 1
    words = [word for word in arguments if not word.startswith("-")]
    if "--version" in arguments or "-v" in arguments or words[:1] != ["discovery"]:
        return "CLI:\n    Version: N/A\n\nService:\n    Version: N/A\n    Level Zero Version: N/A\n", 0
    cards = list(enumerate(world.cards("xpu")))
    chosen = next((word for option, word in pairwise(arguments) if option in ("-d", "--device")), None)
    if chosen is not None:
        cards = [item for item in cards if chosen in (str(item[0]), item[1].known("pci_bus_id"))]
        if not cards:
            return "Error: device not found\n", 1
    rows = [_fields(world, index, card) for index, card in cards]
    if "-j" in arguments or "--json" in arguments:
        document: Any = rows[0] | _details(cards[0][1]) if chosen is not None else {"device_list": rows}
        return json.dumps(document, indent=4, sort_keys=True) + "\n", 0
    if not cards:
        return "No device discovered\n", 0
    return _table(rows, [_details(card) if chosen is not None else {} for _, card in cards]), 0


def _fields(world: World, index: int, card: Device) -> dict[str, Any]:
    nodes = [str(node) for node in world.known("host.dev", []) if str(node).startswith("/dev/dri/card")]
    return {
        "device_function_type": "physical",
        "device_id": index,
        "device_name": card.known("name", "N/A"),
        "device_type": "GPU",
        "drm_device": nodes[index] if index < len(nodes) else "N/A",
        "pci_bdf_address": card.known("pci_bus_id", "N/A"),
        "pci_device_id": card.known("pci_device_id", "N/A"),
        "uuid": card.known("uuid", "N/A"),
        "vendor_name": card.known("vendor", "Intel(R) Corporation"),
    }


def _details(card: Device) -> dict[str, Any]:
    """What `-d` shows as well."""
    total = card.known("total_memory")
    return {
        "driver_version": card.known("driver_version", "N/A"),
        "memory_physical_size": f"{total / (1 << 20):.2f} MiB" if total else "N/A",
        "memory_physical_size_byte": str(total) if total else "N/A",
        "number_of_eus": card.known("gpu_eu_count", "N/A"),
        "number_of_subslices": card.known("gpu_subslice_count", "N/A"),
    }


_TITLES = {
    "device_name": "Device Name",
    "vendor_name": "Vendor Name",
    "uuid": "SOC UUID",
    "pci_bdf_address": "PCI BDF Address",
    "drm_device": "DRM Device",
    "device_function_type": "Function Type",
    "driver_version": "Driver Version",
    "memory_physical_size": "Memory Physical Size",
    "number_of_eus": "Number of EUs",
}


def _table(rows: list[dict[str, Any]], details: list[dict[str, Any]]) -> str:
    rule = "+" + "-" * 11 + "+" + "-" * 86 + "+\n"
    out = [rule, f"| Device ID | {'Device Information':<85}|\n", rule]
    for row, more in zip(rows, details, strict=True):
        lines = [f"{title}: {(row | more)[key]}" for key, title in _TITLES.items() if key in row | more]
        for place, line in enumerate(lines):
            out.append(f"| {row['device_id'] if place == 0 else '':<10}| {line:<85}|\n")
        out.append(rule)
    return "".join(out)


def _sycl(world: World) -> str:
    """One line for each device that Level Zero and ONEAPI_DEVICE_SELECTOR leave."""
    lines = []
    for index, card in enumerate(world.visible() if world.platform == "xpu" else world.cards("xpu")):
        platform = card.known("platform_name", "Intel(R) oneAPI Unified Runtime over Level-Zero")
        lines.append(
            f"[level_zero:gpu][level_zero:{index}] {platform}, {card.known('name', 'N/A')} "
            f"[{card.known('driver_version', 'N/A')}]\n"
        )
    return "".join(lines)
