"""The machine that a child pretends to be, and what its driver shows of it in the present environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import visible

UNKNOWN = "unknown"
_MISSING = object()


class UnknownValueError(RuntimeError):
    """A probe asked for a value that the machine's file does not give. Nothing is made up in its place."""

    def __init__(self, machine: str, key: str, probe: str) -> None:
        super().__init__(machine, key, probe)
        self.machine, self.key, self.probe = machine, key, probe

    def __str__(self) -> str:
        return (
            f"{self.probe or 'a probe'} asked for {self.key}, which machine {self.machine} does not know. "
            f"Give {self.key} and its source in a machine file of your own; `masquerade machines {self.machine}` shows "
            "what is known."
        )


class NoAnswerError(RuntimeError):
    """A fake has the function that was called, and no answer for it."""

    def __init__(self, machine: str, probe: str, why: str = "") -> None:
        super().__init__(machine, probe, why)
        self.machine, self.probe, self.why = machine, probe, why

    def __str__(self) -> str:
        why = self.why or "the disguise has no answer for it"
        return f"{self.probe} was called on machine {self.machine}: {why}. It runs on the real hardware only."


class Device:
    """One device of the machine. `index` is its place in the machine's list, whatever the environment shows."""

    def __init__(self, world: World, index: int, values: Mapping[str, Any], where: str = "devices") -> None:
        self.world, self.index, self.values, self.where = world, index, values, where

    def get(self, key: str, probe: str = "") -> Any:
        """The value of `key` (`name`, `total_memory`, ...). Raises UnknownValueError where it is not known."""
        value = self.values.get(key, UNKNOWN)
        if value == UNKNOWN:
            raise UnknownValueError(self.world.id, f"{self.where}.{self.index}.{key}", probe)
        return value

    def known(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` where it is not known."""
        value = self.values.get(key, UNKNOWN)
        return default if value == UNKNOWN else value

    def __repr__(self) -> str:
        return f"<device {self.index} of {self.world.id}: {self.values.get('name', UNKNOWN)}>"


class World:
    """A machine as plain JSON (docs/architecture.md) with the environment of the check.

    `environ` is read anew at each question; without it, os.environ is.
    """

    def __init__(self, machine: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> None:
        self.machine = machine
        self._environ = environ
        self.id: str = machine.get("id", machine["platform"])
        self.platform: str = machine["platform"]
        self.arch: str = machine.get("arch", "")
        self.fault: Mapping[str, Any] | None = machine.get("fault")

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ if self._environ is None else self._environ

    def get(self, key: str, probe: str = "") -> Any:
        """The leaf at a dotted key, as `devices.0.name`. Raises UnknownValueError where it is unknown or missing."""
        value = self._find(key)
        if value is _MISSING or value == UNKNOWN:
            raise UnknownValueError(self.id, key, probe)
        return value

    def known(self, key: str, default: Any = None) -> Any:
        """The leaf at a dotted key, or `default` where it is unknown or missing."""
        value = self._find(key)
        return default if value is _MISSING or value == UNKNOWN else value

    def _find(self, key: str) -> Any:
        value: Any = self.machine
        for part in key.split("."):
            if isinstance(value, Mapping):
                value = value.get(part, _MISSING)
            elif isinstance(value, (list, tuple)) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                return _MISSING
        return value

    @property
    def devices(self) -> list[Device]:
        """All devices of the platform, in the driver's order: what management libraries list."""
        return [Device(self, index, values) for index, values in enumerate(self.machine.get("devices") or ())]

    @property
    def other_devices(self) -> list[Device]:
        """Cards of another vendor in the same host."""
        found = self.machine.get("other_devices") or ()
        return [Device(self, index, values, "other_devices") for index, values in enumerate(found)]

    def cards(self, platform: str) -> list[Device]:
        """All cards of a platform's vendor, in the order of the PCI bus, whatever platform the machine is."""
        cards = self.devices if self.platform == platform else []
        vendor = {"cuda": "0x10de", "rocm": "0x1002", "xpu": "0x8086"}.get(platform)
        cards += [card for card in self.other_devices if str(card.known("pci_vendor_id", "")).lower() == vendor]
        buses = [card.known("pci_bus_id") for card in cards]
        return sorted(cards, key=lambda card: str(card.known("pci_bus_id")).lower()) if all(buses) else cards

    def visible(self) -> list[Device]:
        """The devices that the driver shows, in its order, after the visible-devices variables of this moment.

        Raises RuntimeError for an ONEAPI_DEVICE_SELECTOR that SYCL cannot parse.
        """
        devices = self.devices
        return [devices[index] for index in visible.indices(self.platform, devices, self.environ)]

    def count(self) -> int:
        """How many devices the runtime counts: a faulty machine may count none though it has some."""
        count = (self.fault or {}).get("count")
        return len(self.visible()) if count is None else int(count)

    def management(self, library: str) -> str:
        """State of a management library (`nvml`, `amdsmi`, `xpu-smi`): ok, absent or failing."""
        state = self.known(f"management.{library}", "absent")
        return str(state)
