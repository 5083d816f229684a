"""`import amdsmi` on a machine with AMD SMI: the package's functions, answered from the machine.

It stands in even where amdsmi is installed, which without libamd_smi.so cannot be imported. All cards are seen,
whatever HIP_VISIBLE_DEVICES says. Source of formats and units: the amdsmi package 7.0.2 and the AMD SMI API reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import hooks, steady
from .amdsmi_names import (
    DRIVER_NOT_LOADED,
    NAMES,
    NOT_FOUND,
    NOT_INIT,
    STATUS,
    AmdSmiBdfFormatException,
    AmdSmiLibraryException,
    AmdSmiLinkType,
    AmdSmiParameterException,
    AmdSmiTemperatureMetric,
    amdsmi_processor_handle,
)
from .standins import StandInLoader
from .world import UNKNOWN, Device, NoAnswerError, UnknownValueError, World

NAME = "amdsmi"
SUBMODULES = ("amdsmi_interface", "amdsmi_exception", "amdsmi_wrapper")
MIB = 1 << 20


def install(world: World) -> None:
    """Let `import amdsmi` find the machine's AMD SMI, or nothing where the machine has none."""
    if world.management("amdsmi") == "absent":
        hooks.hide([NAME])
        return
    library = Library(world)

    def fill(module: ModuleType) -> None:
        module.__dict__.update(library.names())

        def __getattr__(name: str) -> Any:
            if not name.startswith("amdsmi_") or name in SUBMODULES:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return _unanswered(world, name)

        module.__dict__["__getattr__"] = __getattr__

    def make_spec(name: str) -> ModuleSpec | None:
        below = name.partition(".")[2]
        if below and below not in SUBMODULES:
            return None
        title = f'"""A stand-in of {name}: the AMD SMI of machine {world.id}."""\n'
        return StandInLoader(name, title, fill, package=not below).spec()

    hooks.serve(NAME, make_spec, instead=True)


def _unanswered(world: World, name: str) -> Callable[..., Any]:
    def unanswered(*args: Any, **kwargs: Any) -> Any:
        raise NoAnswerError(world.id, f"{NAME}.{name}")

    unanswered.__name__ = name
    return unanswered


class Missing(str):
    """The text `unknown`, in the place of the machine's leaf `key`."""

    key: str

    def __new__(cls, key: str) -> Missing:
        self = super().__new__(cls, UNKNOWN)
        self.key = key
        return self


def _leaf(card: Device, key: str, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """What `read` makes of a leaf, or Missing."""
    value = card.known(key)
    return Missing(key) if value is None else read(value)


class Fields(dict[str, Any]):
    """A struct as a dict. Asking for a field that the machine's file lacks raises UnknownValueError."""

    def __init__(self, card: Device, probe: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self._card, self._probe = card, probe

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, str) and value == UNKNOWN:
            where = f"{self._card.where}.{self._card.index}.{getattr(value, 'key', key)}"
            raise UnknownValueError(self._card.world.id, where, f"{NAME}.{self._probe}()[{key!r}]")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - dict.get would pass by the check


class Library:
    """AMD SMI in one process: whether it was initialized, and the cards."""

    def __init__(self, world: World) -> None:
        self.world, self.started = world, 0
        self._names: dict[str, Any] | None = None

    def names(self) -> dict[str, Any]:
        """All names that the module has, made when it is first imported; its submodules have the same."""
        if self._names is None:
            self._names = self._make_names()
        return self._names

    def _make_names(self) -> dict[str, Any]:
        names = dict(NAMES)
        version = self.world.known(f"packages.present.{NAME}.version")
        if version:
            names["__version__"] = version
        names["amdsmi_init"], names["amdsmi_shut_down"] = self.init, self.shut_down
        names["amdsmi_get_processor_handles"] = self.handles
        names["amdsmi_get_processor_handle_from_bdf"] = self.by_bdf
        names["amdsmi_get_rocm_version"] = self.rocm_version
        names.update({name: self._about_card(name, answer) for name, answer in ANSWERS.items()})
        names.update({name: self._about_pair(name, answer) for name, answer in PAIRS.items()})
        return names

    def init(self, flag: Any = None) -> None:
        if self.world.management("amdsmi") != "ok":
            said = str((self.world.fault or {}).get("management_error") or "").lower()
            told = (code for code, text in STATUS.items() if said and text.partition(" - ")[2].lower() in said)
            raise AmdSmiLibraryException(next(told, DRIVER_NOT_LOADED))
        self.started += 1

    def shut_down(self) -> None:
        self._check()
        self.started -= 1

    def _check(self) -> None:
        if not self.started:
            raise AmdSmiLibraryException(NOT_INIT)

    def handles(self) -> list[amdsmi_processor_handle]:
        self._check()
        return [amdsmi_processor_handle(place) for place in range(len(self.world.cards("rocm")))]

    def by_bdf(self, bdf: str) -> amdsmi_processor_handle:
        self._check()
        if not re.fullmatch(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", str(bdf)):
            raise AmdSmiBdfFormatException(bdf)
        for place, card in enumerate(self.world.cards("rocm")):
            if str(card.known("pci_bus_id", "")).lower().endswith(bdf.lower()):
                return amdsmi_processor_handle(place)
        raise AmdSmiLibraryException(NOT_FOUND)

    def rocm_version(self) -> tuple[bool, str]:
        """Whether it could be read, and the version."""
        return True, str(self.world.get("driver.runtime", f"{NAME}.amdsmi_get_rocm_version"))

    def card(self, handle: Any) -> Device:
        if not isinstance(handle, amdsmi_processor_handle):
            raise AmdSmiParameterException(handle, amdsmi_processor_handle)
        self._check()
        return self.world.cards("rocm")[handle._place]

    def _about_card(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def function(processor_handle: Any, *args: Any) -> Any:
            card = self.card(processor_handle)
            value = answer(card, f"{NAME}.{name}", *args)
            return Fields(card, name, value) if isinstance(value, dict) else value

        function.__name__ = function.__qualname__ = name
        return function

    def _about_pair(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def function(processor_handle_src: Any, processor_handle_dst: Any) -> Any:
            return answer(self.card(processor_handle_src), self.card(processor_handle_dst), f"{NAME}.{name}")

        function.__name__ = function.__qualname__ = name
        return function


def _asic(card: Device, probe: str) -> dict[str, Any]:
    return {
        "market_name": _leaf(card, "market_name"),
        "vendor_id": _leaf(card, "pci_vendor_id"),
        "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
        "subvendor_id": UNKNOWN,
        "device_id": _leaf(card, "pci_device_id"),
        "rev_id": UNKNOWN,
        "asic_serial": _leaf(card, "serial", lambda serial: f"0x{int(str(serial), 16):016X}"),
        "oam_id": UNKNOWN,
        "num_compute_units": _leaf(card, "multi_processor_count"),
        "target_graphics_version": _leaf(card, "arch"),
        "subsystem_id": UNKNOWN,
    }


def _board(card: Device, probe: str) -> dict[str, Any]:
    return {
        "model_number": UNKNOWN,
        "product_serial": UNKNOWN,
        "fru_id": UNKNOWN,
        "product_name": _leaf(card, "name"),
        "manufacturer_name": UNKNOWN,
    }


def _driver(card: Device, probe: str) -> dict[str, Any]:
    version = card.world.known("driver.version", UNKNOWN)
    return {"driver_name": "amdgpu", "driver_version": version, "driver_date": UNKNOWN}


def _vram(card: Device, probe: str) -> dict[str, Any]:
    """MiB, bits and GB/s."""
    return {
        "vram_type": UNKNOWN,
        "vram_vendor": UNKNOWN,
        "vram_size": _leaf(card, "total_memory", lambda total: total // MIB),
        "vram_bit_width": _leaf(card, "memory_bus_width"),
        "vram_max_bandwidth": UNKNOWN,
    }


def _enumeration(card: Device, probe: str) -> dict[str, Any]:
    nodes = [str(node) for node in card.world.known("host.dev", []) if "/renderD" in str(node)]
    return {
        "drm_render": int(nodes[card.index].rpartition("renderD")[2]) if card.index < len(nodes) else UNKNOWN,
        "drm_card": UNKNOWN,
        "hsa_id": UNKNOWN,
        "hip_id": card.index,
        "hip_uuid": _leaf(card, "serial", lambda serial: f"GPU-{int(str(serial), 16):016x}"),
    }


def _power(card: Device, probe: str) -> dict[str, Any]:
    """Watts and millivolts. From MI300 on the current power is there, before it the average one."""
    newer = str(card.known("arch", "")).startswith(("gfx94", "gfx95", "gfx125"))
    return {
        "socket_power": steady.POWER_DRAW,
        "current_socket_power": steady.POWER_DRAW if newer else "N/A",
        "average_socket_power": "N/A" if newer else steady.POWER_DRAW,
        "gfx_voltage": UNKNOWN,
        "soc_voltage": UNKNOWN,
        "mem_voltage": UNKNOWN,
        "power_limit": _leaf(card, "power_limit"),
    }


def _power_cap(card: Device, probe: str) -> dict[str, Any]:
    """Microwatts."""
    cap = _leaf(card, "power_limit", lambda limit: limit * 1_000_000)
    caps = {"power_cap": cap, "default_power_cap": cap, "max_power_cap": cap}
    return caps | {"min_power_cap": UNKNOWN, "dpm_cap": UNKNOWN}


def _clock(card: Device, probe: str, clock_type: int) -> dict[str, Any]:
    """MHz. The current clock is the highest one: a machine's file holds no other."""
    key = {0: "clock_rate", 4: "memory_clock_rate"}.get(int(clock_type))
    if key is None:
        raise NoAnswerError(card.world.id, f"{probe}(clock type {int(clock_type)})")
    clock = _leaf(card, key, lambda rate: rate // 1000)
    return {"clk": clock, "min_clk": UNKNOWN, "max_clk": clock, "clk_locked": False, "clk_deep_sleep": UNKNOWN}


def _temperature(card: Device, probe: str, sensor: int, metric: int) -> int:
    if metric != AmdSmiTemperatureMetric.CURRENT:
        raise NoAnswerError(card.world.id, f"{probe}(metric {int(metric)})")
    return steady.TEMPERATURE


def _memory_total(card: Device, probe: str, kind: int) -> int:
    """Bytes, of VRAM."""
    if kind != 0:
        raise NoAnswerError(card.world.id, f"{probe}(memory type {int(kind)})")
    return int(card.get("total_memory", probe))


def _link_type(one: Device, other: Device, probe: str) -> dict[str, int]:
    if one.index == other.index:
        return {"hops": 0, "type": int(AmdSmiLinkType.AMDSMI_LINK_TYPE_INTERNAL)}
    if str(one.world.get("interconnect", probe)) == "XGMI":
        return {"hops": 1, "type": int(AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI)}
    return {"hops": 2, "type": int(AmdSmiLinkType.AMDSMI_LINK_TYPE_PCIE)}


ANSWERS: dict[str, Callable[..., Any]] = {
    "amdsmi_get_gpu_asic_info": _asic,
    "amdsmi_get_gpu_board_info": _board,
    "amdsmi_get_gpu_driver_info": _driver,
    "amdsmi_get_gpu_vram_info": _vram,
    "amdsmi_get_gpu_vram_usage": lambda card, probe: {
        "vram_total": card.get("total_memory", probe) // MIB,
        "vram_used": steady.MEMORY_USED // MIB,
    },
    "amdsmi_get_gpu_memory_total": _memory_total,
    "amdsmi_get_gpu_memory_usage": lambda card, probe, kind: steady.MEMORY_USED,
    "amdsmi_get_gpu_enumeration_info": _enumeration,
    "amdsmi_get_gpu_device_uuid": lambda card, probe: card.get("uuid", probe),
    "amdsmi_get_gpu_device_bdf": lambda card, probe: card.get("pci_bus_id", probe),
    "amdsmi_get_gpu_id": lambda card, probe: int(card.get("pci_device_id", probe), 16),
    "amdsmi_get_gpu_vendor_name": lambda card, probe: "Advanced Micro Devices, Inc. [AMD/ATI]",
    "amdsmi_get_processor_type": lambda card, probe: {"processor_type": "AMDSMI_PROCESSOR_TYPE_AMD_GPU"},
    "amdsmi_get_gpu_activity": lambda card, probe: dict.fromkeys(
        ("gfx_activity", "umc_activity", "mm_activity"), steady.UTILIZATION
    ),
    "amdsmi_get_gpu_process_list": lambda card, probe: [],
    "amdsmi_get_power_info": _power,
    "amdsmi_get_power_cap_info": _power_cap,
    "amdsmi_get_clock_info": _clock,
    "amdsmi_get_temp_metric": _temperature,
}
PAIRS: dict[str, Callable[..., Any]] = {
    "amdsmi_topo_get_link_type": _link_type,
    "amdsmi_is_P2P_accessible": lambda one, other, probe: (
        one.index == other.index or str(one.world.get("interconnect", probe)) == "XGMI"
    ),
}
