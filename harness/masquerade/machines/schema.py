"""Every value that a machine's file can state: its dotted key, how it is written, and what it becomes in JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .units import parse_bytes, parse_khz

#: The value of a leaf that nobody has read off a real machine. A fake that is asked for it raises UnknownValueError.
UNKNOWN = "unknown"

PLATFORMS = ("cuda", "rocm", "xpu", "cpu")
GPU_PLATFORMS = PLATFORMS[:3]


@dataclass(frozen=True)
class Kind:
    """A way to write a value: `parse` gives the JSON value, or None for what is not `expected`."""

    expected: str
    parse: Callable[[object], object | None]


def _choice(*words: str) -> Kind:
    return Kind("one of " + ", ".join(words), lambda v: v if isinstance(v, str) and v in words else None)


def _list_of(kind: type, value: object) -> object | None:
    good = isinstance(value, list) and all(type(item) is kind for item in value)
    return value if good else None


TEXT = Kind("a text in quotes", lambda v: v if isinstance(v, str) and v else None)
EMPTY_TEXT = Kind('a text in quotes, "" where there is none', lambda v: v if isinstance(v, str) else None)
COUNT = Kind("a whole number", lambda v: v if type(v) is int and v >= 0 else None)
FLAG = Kind("true or false", lambda v: v if type(v) is bool else None)
BIT = Kind("0 or 1", lambda v: v if type(v) is int and v in (0, 1) else None)
TEXTS = Kind("a list of texts", lambda v: _list_of(str, v))
COUNTS = Kind("a list of whole numbers", lambda v: _list_of(int, v))
SIZE = Kind('a size such as "143156MB" or "64KiB", or a number of bytes', parse_bytes)
CLOCK = Kind('a clock rate such as "1980MHz", or a number of kHz', parse_khz)
CAPABILITY = Kind("two whole numbers [major, minor]", lambda v: _list_of(int, v) if _length(v) == 2 else None)
PCI_ID = Kind(
    'four hexadecimal digits such as "0x2335"',
    lambda v: v if isinstance(v, str) and len(v) == 6 and v.startswith("0x") and _is_hex(v[2:]) else None,
)
PROBE = Kind("true, false, a whole number or a text", lambda v: v if isinstance(v, (bool, int, str)) else None)


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else -1


def _is_hex(text: str) -> bool:
    return all(digit in "0123456789abcdef" for digit in text)


@dataclass(frozen=True)
class Field:
    """One leaf. `nullable`: the key may stand in a `none` list, which says that the thing does not exist there."""

    kind: Kind
    nullable: bool = False


_COMMON = {
    "name": Field(TEXT),
    "arch": Field(TEXT),
    "capability": Field(CAPABILITY, nullable=True),
    "gcn_arch_name": Field(EMPTY_TEXT),
    "total_memory": Field(SIZE),
    "multi_processor_count": Field(COUNT, nullable=True),
    "warp_size": Field(COUNT, nullable=True),
    "shared_memory_per_block": Field(SIZE, nullable=True),
    "shared_memory_per_block_optin": Field(SIZE, nullable=True),
    "shared_memory_per_multiprocessor": Field(SIZE, nullable=True),
    "l2_cache_size": Field(SIZE, nullable=True),
    "max_threads_per_multi_processor": Field(COUNT, nullable=True),
    "max_threads_per_block": Field(COUNT, nullable=True),
    "regs_per_multiprocessor": Field(COUNT, nullable=True),
    "clock_rate": Field(CLOCK),
    "memory_clock_rate": Field(CLOCK),
    "memory_bus_width": Field(COUNT),
    "is_integrated": Field(BIT),
    "is_multi_gpu_board": Field(BIT, nullable=True),
    "uuid": Field(TEXT),
    "serial": Field(TEXT),
    "pci_bus_id": Field(TEXT),
    "pci_device_id": Field(PCI_ID, nullable=True),
    "pci_vendor_id": Field(PCI_ID),
    "market_name": Field(TEXT),
    "power_limit": Field(COUNT),
}

_XPU = {
    "device_id": Field(COUNT),
    "driver_version": Field(TEXT),
    "gpu_eu_count": Field(COUNT),
    "gpu_subslice_count": Field(COUNT),
    "max_compute_units": Field(COUNT),
    "max_work_group_size": Field(COUNT),
    "max_num_sub_groups": Field(COUNT),
    "sub_group_sizes": Field(COUNTS),
    "has_fp16": Field(FLAG),
    "has_fp64": Field(FLAG),
    "has_atomic64": Field(FLAG),
    "local_mem_size": Field(SIZE),
    "last_level_cache_size": Field(SIZE),
    "has_bfloat16_conversions": Field(FLAG),
    "has_subgroup_matrix_multiply_accumulate": Field(FLAG),
    "has_subgroup_matrix_multiply_accumulate_tensor_float32": Field(FLAG),
    "has_subgroup_2d_block_io": Field(FLAG),
    "architecture": Field(COUNT),
    "platform_name": Field(TEXT),
    "type": Field(TEXT),
    "vendor": Field(TEXT),
}

#: Leaves that to_json always gives, by section.
DEVICE = _COMMON | _XPU
FIXED = {
    "platform": Field(_choice(*PLATFORMS)),
    "arch": Field(TEXT),
    **{f"torch.{name}": Field(TEXT, nullable=True) for name in ("cuda", "hip", "xpu")},
    "torch.arch_list": Field(TEXTS),
    "torch.cudnn": Field(COUNT, nullable=True),
    "interconnect": Field(TEXT),
    "peer_access": Field(FLAG),
    **{f"driver.{name}": Field(TEXT, nullable=True) for name in ("version", "runtime")},
    **{f"management.{name}": Field(_choice("ok", "absent", "failing")) for name in ("nvml", "amdsmi", "xpu-smi")},
    "host.machine": Field(TEXT),
    "host.system": Field(_choice("Linux", "Darwin")),
    "host.cpu.vendor_id": Field(TEXT, nullable=True),
    "host.cpu.model_name": Field(TEXT, nullable=True),
    "host.cpu.flags": Field(TEXTS),
    "host.cpu.cores": Field(COUNT),
    "host.cpu.implementer": Field(TEXT, nullable=True),
    "host.cpu.part": Field(TEXT, nullable=True),
    "host.dev": Field(TEXTS),
    "host.paths": Field(TEXTS),
    "host.tools": Field(TEXTS),
}

#: Leaves that to_json gives only where a file states them.
_FAULT = {
    "fault.kind": Field(TEXT),
    "fault.count": Field(COUNT),
    "fault.count_warning": Field(TEXT),
    "fault.init_error.type": Field(_choice("RuntimeError", "AssertionError", "OSError", "ImportError")),
    "fault.init_error.message": Field(TEXT),
    "fault.properties_error": Field(TEXT),
    "fault.management_error": Field(TEXT),
}
_OPEN = {
    "host.env": Field(EMPTY_TEXT, nullable=True),
    "host.torch_cpu": Field(PROBE),
    "host.torch_cpu._get_cpu_capability": Field(PROBE),
}

STATED = FIXED | _FAULT | {f"device.{name}": field for name, field in DEVICE.items()}

#: What a machine cannot do without: everything else may be unknown.
REQUIRED = ("platform", "arch", "host.machine", "host.system")
REQUIRED_OF_GPU = ("device.name", "device.arch")


def device_fields(platform: str) -> dict[str, Field]:
    """The leaves of a device on this platform, in the order of the JSON."""
    return DEVICE if platform == "xpu" else _COMMON


def field_of(key: str) -> Field | None:
    """The field that a dotted key names, or None. Below host.env and host.torch_cpu any name is a key."""
    found = STATED.get(key)
    if found is None:
        section, _, name = key.rpartition(".")
        found = _OPEN.get(section) if name and key not in _OPEN else None
    return found


def is_section(key: str) -> bool:
    """Whether the key names a group of fields and no field itself."""
    return key in _OPEN or any(name.startswith(key + ".") for name in (*STATED, *_OPEN))
