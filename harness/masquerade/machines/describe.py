"""A machine as rows for people: each leaf, its value as one would say it, and where it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .machine import Machine
from .schema import CLOCK, SIZE, UNKNOWN, Kind, field_of
from .units import show_bytes, show_khz


@dataclass(frozen=True)
class Row:
    """One leaf: `section` is the first part of its key, `value` is as in the JSON, `text` as people say it."""

    section: str
    key: str
    value: Any
    text: str
    source: str


def describe(machine: Machine) -> list[Row]:
    """Every leaf of the machine with its source, in the order of the JSON."""
    sources = machine.sources()
    shape = machine.to_json()
    rows = []
    for key, value in leaves(shape):
        if key != "id":
            rows.append(Row(key.split(".")[0], key, value, _say(key, value), sources.get(key, "")))
    return rows


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a machine's JSON with their dotted keys. Lists of plain values are leaves."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from leaves(below, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for index, below in enumerate(value):
            yield from leaves(below, f"{key}.{index}")
    elif not (isinstance(value, list) and key in ("devices", "other_devices")):
        yield key, value


def _say(key: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return " ".join(map(str, value)) if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        kind = _kind(key)
        if kind is SIZE:
            return show_bytes(value)
        if kind is CLOCK:
            return show_khz(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _kind(key: str) -> Kind | None:
    section, _, rest = key.partition(".")
    if section in ("devices", "other_devices"):
        key = f"device.{rest.partition('.')[2]}"
    field = field_of(key)
    return field.kind if field else None


def unknown(machine: Machine) -> list[str]:
    """The keys that nobody has read off such a machine yet."""
    return [row.key for row in describe(machine) if row.value == UNKNOWN]
