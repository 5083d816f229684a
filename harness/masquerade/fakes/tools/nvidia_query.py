"""nvidia-smi --query-gpu and -q: one property at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .. import steady
from ..world import Device, World

MIB = 1 << 20
Value = Callable[[World, int, Device], Any]


def known(card: Device, key: str) -> Any:
    return card.known(key, "N/A")


def bus_id(card: Device) -> str:
    """With eight digits of domain, as the tool writes it: 00000000:05:00.0."""
    domain, _, rest = str(card.known("pci_bus_id", "")).partition(":")
    return f"{int(domain, 16):08X}:{rest.upper()}" if rest else "N/A"


def _part(card: Device, place: int) -> str:
    parts = str(card.known("pci_bus_id", "")).replace(".", ":").split(":")
    return f"0x{int(parts[place], 16):0{4 if place == 0 else 2}X}" if len(parts) == 4 else "N/A"


def _scaled(card: Device, key: str, divisor: int) -> Any:
    value = card.known(key)
    return value // divisor if isinstance(value, int) else "N/A"


def _identity(card: Device) -> str:
    device, vendor = card.known("pci_device_id"), card.known("pci_vendor_id")
    return f"0x{int(device, 16):04X}{int(vendor, 16):04X}" if device and vendor else "N/A"


def _free(world: World, index: int, card: Device) -> Any:
    total = card.known("total_memory")
    return (total - steady.MEMORY_USED) // MIB if total else "N/A"


def _mig(world: World, index: int, card: Device) -> str:
    capability = card.known("capability")
    return "Disabled" if capability and tuple(capability) >= (8, 0) else "N/A"


def _watts(card: Device) -> Any:
    limit = card.known("power_limit")
    return f"{limit:.2f}" if limit else "N/A"


def _leaf(key: str) -> Value:
    return lambda world, index, card: known(card, key)


def _always(value: Any) -> Value:
    return lambda world, index, card: value


#: Property -> unit and value. Source of the names: nvidia-smi --help-query-gpu.
PROPERTIES: dict[str, tuple[str, Value]] = {
    "timestamp": ("", lambda world, index, card: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "driver_version": ("", lambda world, index, card: world.known("driver.version", "N/A")),
    "count": ("", lambda world, index, card: len(world.cards("cuda"))),
    "name": ("", _leaf("name")),
    "index": ("", lambda world, index, card: index),
    "uuid": ("", _leaf("uuid")),
    "serial": ("", _leaf("serial")),
    "pci.bus_id": ("", lambda world, index, card: bus_id(card)),
    "pci.domain": ("", lambda world, index, card: _part(card, 0)),
    "pci.bus": ("", lambda world, index, card: _part(card, 1)),
    "pci.device": ("", lambda world, index, card: _part(card, 2)),
    "pci.device_id": ("", lambda world, index, card: _identity(card)),
    "compute_cap": ("", lambda world, index, card: ".".join(map(str, card.known("capability") or ("N/A",)))),
    "memory.total": ("MiB", lambda world, index, card: _scaled(card, "total_memory", MIB)),
    "memory.used": ("MiB", _always(steady.MEMORY_USED // MIB)),
    "memory.free": ("MiB", _free),
    "utilization.gpu": ("%", _always(steady.UTILIZATION)),
    "utilization.memory": ("%", _always(steady.UTILIZATION)),
    "temperature.gpu": ("", _always(steady.TEMPERATURE)),
    "power.draw": ("W", _always(f"{steady.POWER_DRAW:.2f}")),
    **{f"power.{kind}limit": ("W", lambda w, i, card: _watts(card)) for kind in ("", "default_", "max_")},
    "enforced.power.limit": ("W", lambda world, index, card: _watts(card)),
    **{
        f"clocks.{kind}{unit}": ("MHz", lambda w, i, card, key=key: _scaled(card, key, 1000))  # type: ignore[misc]
        for kind in ("", "current.", "max.")
        for unit, key in (
            ("gr", "clock_rate"),
            ("graphics", "clock_rate"),
            ("sm", "clock_rate"),
            ("mem", "memory_clock_rate"),
            ("memory", "memory_clock_rate"),
        )
    },
    "pstate": ("", _always("P0")),
    "compute_mode": ("", _always("Default")),
    "persistence_mode": ("", _always("Disabled")),
    "display_mode": ("", _always("Disabled")),
    "display_active": ("", _always("Disabled")),
    "mig.mode.current": ("", _mig),
    "mig.mode.pending": ("", _mig),
    **dict.fromkeys(
        (
            "fan.speed",
            "vbios_version",
            "ecc.mode.current",
            "ecc.mode.pending",
            "pcie.link.gen.current",
            "pcie.link.gen.max",
            "pcie.link.width.current",
            "pcie.link.width.max",
            "memory.reserved",
            "temperature.memory",
        ),
        ("", _always("N/A")),
    ),
}
#: Other names of a property -> the name that stands above its column. Source: nvidia-smi --help-query-gpu.
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    **{
        f"clocks.{short}": f"clocks.{full}"
        for short, full in (
            ("gr", "current.graphics"),
            ("sm", "current.sm"),
            ("mem", "current.memory"),
            ("max.gr", "max.graphics"),
            ("max.mem", "max.memory"),
        )
    },
}


def csv(world: World, cards: list[tuple[int, Device]], wanted: str, form: str) -> tuple[str, int]:
    """`--query-gpu=wanted --format=form`."""
    choices = [word.strip() for word in (form or "csv").split(",")]
    if "csv" not in choices:
        return "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n", 2
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in names:
        if ALIASES.get(name, name) not in PROPERTIES:
            return f'Field "{name}" is not a valid field to query.\n\n', 2
    names = [ALIASES.get(name, name) for name in names]
    columns = [PROPERTIES[name] for name in names]
    lines = []
    if "noheader" not in choices:
        titles = [name + (f" [{unit}]" if unit else "") for name, (unit, _) in zip(names, columns, strict=True)]
        lines.append(", ".join(titles))
    for index, card in cards:
        cells = []
        for unit, value in columns:
            text = str(value(world, index, card))
            plain = "nounits" in choices or not unit
            cells.append("[N/A]" if text == "N/A" else text if plain else f"{text} {unit}")
        lines.append(", ".join(cells))
    return "\n".join(lines) + "\n", 0


def log(world: World, cards: list[tuple[int, Device]]) -> str:
    """`-q`: the sections of which a machine's file holds something."""
    rows: list[tuple[int, str, Any]] = [
        (0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        (0, "Driver Version", world.known("driver.version", "N/A")),
        (0, "CUDA Version", world.known("driver.runtime", "N/A")),
        (-1, "", None),
        (0, "Attached GPUs", len(world.cards("cuda"))),
    ]
    for index, card in cards:
        total, limit = card.known("total_memory"), card.known("power_limit")
        rows += [
            (0, f"GPU {bus_id(card)}", None),
            (1, "Product Name", known(card, "name")),
            (1, "Display Mode", "Disabled"),
            (1, "Display Active", "Disabled"),
            (1, "Persistence Mode", "Disabled"),
            (1, "MIG Mode", None),
            (2, "Current", _mig(world, index, card)),
            (2, "Pending", _mig(world, index, card)),
            (1, "Serial Number", known(card, "serial")),
            (1, "GPU UUID", known(card, "uuid")),
            (1, "Minor Number", index),
            (1, "MultiGPU Board", "Yes" if card.known("is_multi_gpu_board") else "No"),
            (1, "PCI", None),
            (2, "Bus", _part(card, 1)),
            (2, "Device", _part(card, 2)),
            (2, "Domain", _part(card, 0)),
            (2, "Device Id", _identity(card)),
            (2, "Bus Id", bus_id(card)),
            (1, "Performance State", "P0"),
            (1, "FB Memory Usage", None),
            (2, "Total", f"{total // MIB} MiB" if total else "N/A"),
            (2, "Used", f"{steady.MEMORY_USED // MIB} MiB"),
            (2, "Free", f"{(total - steady.MEMORY_USED) // MIB} MiB" if total else "N/A"),
            (1, "Compute Mode", "Default"),
            (1, "Utilization", None),
            (2, "GPU", f"{steady.UTILIZATION} %"),
            (2, "Memory", f"{steady.UTILIZATION} %"),
            (1, "Temperature", None),
            (2, "GPU Current Temp", f"{steady.TEMPERATURE} C"),
            (1, "GPU Power Readings", None),
            (2, "Instantaneous Power Draw", f"{steady.POWER_DRAW:.2f} W"),
            (2, "Current Power Limit", f"{limit:.2f} W" if limit else "N/A"),
            (1, "Max Clocks", None),
            (2, "SM", f"{_scaled(card, 'clock_rate', 1000)} MHz"),
            (2, "Memory", f"{_scaled(card, 'memory_clock_rate', 1000)} MHz"),
            (1, "Processes", "None"),
            (-1, "", None),
        ]
    return "\n==============NVSMI LOG==============\n\n" + "".join(_line(*row) for row in rows)


def _line(depth: int, name: str, value: Any) -> str:
    if depth < 0:
        return "\n"
    title = "    " * depth + name
    return f"{title}\n" if value is None else f"{title:<42}: {str(value).replace('N/A MHz', 'N/A')}\n"
