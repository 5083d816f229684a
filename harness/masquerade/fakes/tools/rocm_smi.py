"""rocm-smi: the concise table and the --show options that software reads, as text, JSON and CSV.

What a machine's file does not hold is N/A. Source of formats: rocm_smi.py of ROCm 6, its outputs in public bug reports.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .. import steady
from ..world import Device, World

VENDOR = "Advanced Micro Devices, Inc. [AMD/ATI]"
WIDTH = 90

Fields = dict[str, str]


def text_of(card: Device, key: str) -> str:
    return str(card.known(key, "N/A"))


def _id(card: Device) -> Fields:
    return {
        "Device Name": text_of(card, "name"),
        "Device ID": text_of(card, "pci_device_id"),
        "Device Rev": "N/A",
        "Subsystem ID": "N/A",
        "GUID": "N/A",
    }


def _product(card: Device) -> Fields:
    return {
        "Card Series": text_of(card, "name"),
        "Card Model": text_of(card, "pci_device_id"),
        "Card Vendor": VENDOR,
        "Card SKU": "N/A",
        "Subsystem ID": "N/A",
        "Device Rev": "N/A",
        "Node ID": str(card.index + 1),
        "GUID": "N/A",
        "GFX Version": text_of(card, "arch"),
    }


def _memory(card: Device) -> Fields:
    return {
        "VRAM Total Memory (B)": text_of(card, "total_memory"),
        "VRAM Total Used Memory (B)": str(steady.MEMORY_USED),
    }


#: Option -> heading and the fields of one card.
SECTIONS: dict[str, tuple[str, Callable[[Device], Fields]]] = {
    "showid": ("ID", _id),
    "showproductname": ("Product Info", _product),
    "showmeminfo": ("Memory Usage (Bytes)", _memory),
    "showuniqueid": ("Unique ID", lambda card: {"Unique ID": text_of(card, "serial")}),
    "showserial": ("Serial Number", lambda card: {"Serial Number": "N/A"}),
    "showbus": ("PCI Bus ID", lambda card: {"PCI Bus": text_of(card, "pci_bus_id").upper()}),
    "showuse": ("% time GPU is busy", lambda card: {"GPU use (%)": str(steady.UTILIZATION)}),
    "showmemuse": ("Current Memory Use", lambda card: {"GPU Memory Allocated (VRAM%)": "0"}),
    "showtemp": ("Temperature", lambda card: {"Temperature (Sensor junction) (C)": f"{steady.TEMPERATURE:.1f}"}),
    "showpower": (
        "Power Consumption",
        lambda card: {"Current Socket Graphics Package Power (W)": f"{steady.POWER_DRAW:.1f}"},
    ),
    "showmaxpower": (
        "Power Cap",
        lambda card: {"Max Graphics Package Power (W)": f"{card.known('power_limit', 'N/A')}"},
    ),
}
_SHORT = {
    "i": "showid",
    "u": "showuse",
    "t": "showtemp",
    "P": "showpower",
    "a": "showallinfo",
    "V": "version",
    "M": "showmaxpower",
}


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What `rocm-smi arguments` writes, and its exit status."""
    if world.management("amdsmi") == "failing":
        return "ERROR:root:Driver not initialized (amdgpu not found in modules)\n", 0
    options = [_SHORT.get(word.lstrip("-"), word.lstrip("-")) for word in arguments if word.startswith("-")]
    cards = _chosen(world, arguments)
    shown = [option for option in options if option in SECTIONS]
    if "showallinfo" in options:
        shown = list(SECTIONS)
    driver = str(world.known("driver.version", "N/A")) if "showdriverversion" in options else ""
    if "json" in options or "csv" in options:
        if not shown and not driver:
            return "ERROR: Cannot print JSON/CSV output for concise output\n", 1
        return _machine_readable(cards, shown, driver, "json" in options), 0
    if shown or driver:
        return _sections(cards, shown, driver), 0
    return _concise(cards), 0


def _chosen(world: World, arguments: list[str]) -> list[tuple[int, Device]]:
    """All cards, or those whose numbers follow -d."""
    cards = list(enumerate(world.cards("rocm")))
    for option in ("-d", "--device"):
        if option in arguments:
            numbers = []
            for word in arguments[arguments.index(option) + 1 :]:
                if not word.isdigit():
                    break
                numbers.append(int(word))
            cards = [item for item in cards if item[0] in numbers]
    return cards


def _banner(title: str, width: int = WIDTH) -> str:
    return f" {title} ".center(width, "=") + "\n"


def _sections(cards: list[tuple[int, Device]], shown: list[str], driver: str) -> str:
    out = ["\n\n", _banner("ROCm System Management Interface")]
    if driver:
        out += [_banner("Version of System Component"), f"Driver version: {driver}\n", "=" * WIDTH + "\n"]
    for option in shown:
        title, fields = SECTIONS[option]
        out.append(_banner(title))
        for index, card in cards:
            out += [f"GPU[{index}]\t\t: {key}: {_pad(key)}{value}\n" for key, value in fields(card).items()]
        out.append("=" * WIDTH + "\n")
    return "".join(out) + _banner("End of ROCm SMI Log")


def _pad(key: str) -> str:
    """Values stand after one or two tabs; the longer names have none."""
    return "" if "(" in key else "\t" if len(key) > 11 else "\t\t"


def _machine_readable(cards: list[tuple[int, Device]], shown: list[str], driver: str, as_json: bool) -> str:
    table: dict[str, Any] = {}
    for index, card in cards:
        fields: Fields = {}
        for option in shown:
            fields |= SECTIONS[option][1](card)
        if fields:
            table[f"card{index}"] = fields
    if driver:
        table["system"] = {"Driver version": driver}
    if as_json:
        return json.dumps(table) + "\n"
    columns = list(dict.fromkeys(key for fields in table.values() for key in fields))
    rows = [",".join(["device", *columns])]
    rows += [",".join([name, *(str(fields.get(key, "")) for key in columns)]) for name, fields in table.items()]
    return "\n".join(rows) + "\n\n"


def _concise(cards: list[tuple[int, Device]]) -> str:
    heads = [
        "Device",
        "Node",
        "IDs",
        "Temp",
        "Power",
        "Partitions",
        "SCLK",
        "MCLK",
        "Fan",
        "Perf",
        "PwrCap",
        "VRAM%",
        "GPU%",
    ]
    below = ["", "", "(DID,     GUID)", "(Junction)", "(Socket)", "(Mem, Compute, ID)"] + [""] * 7
    rows = []
    for index, card in cards:
        limit = card.known("power_limit")
        rows.append(
            [
                str(index),
                str(card.index + 1),
                f"{text_of(card, 'pci_device_id')},   N/A",
                f"{steady.TEMPERATURE:.1f}°C",
                f"{steady.POWER_DRAW:.1f}W",
                "N/A, N/A, 0",
                *(_clock(card, key) for key in ("clock_rate", "memory_clock_rate")),
                "0%",
                "auto",
                f"{limit:.1f}W" if limit else "N/A",
                "0%",
                f"{steady.UTILIZATION}%",
            ]
        )
    widths = [max(map(len, column)) for column in zip(heads, below, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, below, *rows]
    ]
    width = max(map(len, lines))
    rule = "=" * width + "\n"
    table = "\n".join(lines[:2]) + "\n" + rule + "".join(line + "\n" for line in lines[2:]) + rule
    banners = "\n\n" + _banner("ROCm System Management Interface", width) + _banner("Concise Info", width)
    return banners + table + _banner("End of ROCm SMI Log", width)


def _clock(card: Device, key: str) -> str:
    rate = card.known(key)
    return f"{rate // 1000}Mhz" if rate else "N/A"
