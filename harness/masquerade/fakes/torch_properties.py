"""Device properties as torch gives them: the same attributes and text, each value read from the machine when asked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from masquerade.fakes.world import UNKNOWN, Device

#: Attributes of torch's CUDA and HIP properties -> keys of a machine's device. Source: torch/csrc/cuda/Module.cpp.
CUDA_KEYS = {
    "name": "name",
    "multi_processor_count": "multi_processor_count",
    "total_memory": "total_memory",
    "is_integrated": "is_integrated",
    "is_multi_gpu_board": "is_multi_gpu_board",
    "max_threads_per_multi_processor": "max_threads_per_multi_processor",
    "max_threads_per_block": "max_threads_per_block",
    "warp_size": "warp_size",
    "L2_cache_size": "l2_cache_size",
    "clock_rate": "clock_rate",
    "memory_clock_rate": "memory_clock_rate",
    "memory_bus_width": "memory_bus_width",
    "shared_memory_per_block": "shared_memory_per_block",
    "shared_memory_per_block_optin": "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor": "shared_memory_per_multiprocessor",
    "regs_per_multiprocessor": "regs_per_multiprocessor",
}

#: What a HIP build leaves out. Source: pytorch/pytorch pull request 170572.
NVIDIA_ONLY = frozenset({"shared_memory_per_block_optin"})

#: Attributes of torch's XPU properties, whose keys have the same names but for `_XPU_RENAMED`. Source:
#: torch/csrc/xpu/Module.cpp.
XPU_KEYS = (
    "name",
    "platform_name",
    "vendor",
    "device_id",
    "driver_version",
    "version",
    "max_compute_units",
    "gpu_eu_count",
    "max_work_group_size",
    "max_num_sub_groups",
    "memory_clock_rate",
    "memory_bus_width",
    "sub_group_sizes",
    "local_mem_size",
    "last_level_cache_size",
    "has_fp16",
    "has_fp64",
    "has_atomic64",
    "has_bfloat16_conversions",
    "has_subgroup_matrix_multiply_accumulate",
    "has_subgroup_matrix_multiply_accumulate_tensor_float32",
    "has_subgroup_2d_block_io",
    "is_integrated_gpu",
    "total_memory",
    "gpu_subslice_count",
    "architecture",
    "type",
)
_XPU_RENAMED = {"is_integrated_gpu": "is_integrated"}

#: What torch.xpu counts otherwise than a machine's file: megahertz for kilohertz, a truth for a bit.
_XPU_FORM: dict[str, Callable[[Any], Any]] = {"memory_clock_rate": lambda khz: khz // 1000, "is_integrated_gpu": bool}


class Uuid:
    """torch's UUID object: `str()` is the hexadecimal text without a prefix."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def bytes(self) -> list[int]:
        return list(bytes.fromhex(self._text.replace("-", "")))

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self._text)


class _CUuuid(Uuid):
    """That of torch.cuda, by the name that it has there."""


_CUuuid.__module__ = "torch._C"


def _uuid(text: str, hip: bool) -> str:
    """`GPU-...` as torch writes it. HIP's sixteen bytes are the letters of the sixteen digits, not their value."""
    digits = text.removeprefix("GPU-")
    if not hip or text == UNKNOWN:
        return digits
    return str(uuid.UUID(bytes=digits.encode().ljust(16, b"\0")[:16]))


def _megabytes(value: Any) -> str:
    return f"{value // (1024 * 1024)}MB" if isinstance(value, int) else "unknown"


def _kilobytes(value: Any) -> str:
    return f"{value // 1024}KB" if isinstance(value, int) else "unknown"


def _pci(device: Device, part: int) -> int:
    """Domain, bus or device number out of `0000:05:00.0`."""
    address = device.get("pci_bus_id", "torch.cuda.get_device_properties")
    return int(address.replace(".", ":").split(":")[part], 16)


class _CudaDeviceProperties:
    """Properties of a CUDA or HIP device."""

    def __init__(self, device: Device) -> None:
        self.__dict__["_device"] = device

    def __getattr__(self, attribute: str) -> Any:
        device: Device = self.__dict__["_device"]
        probe = f"torch.cuda.get_device_properties().{attribute}"
        hip = device.world.platform == "rocm"
        if attribute in CUDA_KEYS and not (hip and attribute in NVIDIA_ONLY):
            return device.get(CUDA_KEYS[attribute], probe)
        if attribute in ("major", "minor"):
            return device.get("capability", probe)[attribute == "minor"]
        if attribute == "gcnArchName":
            # A CUDA build gives the device's name here; only HIP has an architecture name.
            return device.get("gcn_arch_name" if hip else "name", probe)
        if attribute == "uuid":
            return _CUuuid(_uuid(str(device.get("uuid", probe)), hip))
        if attribute in ("pci_domain_id", "pci_bus_id", "pci_device_id"):
            return _pci(device, ("pci_domain_id", "pci_bus_id", "pci_device_id").index(attribute))
        raise AttributeError(
            f"'torch._C._CudaDeviceProperties' object has no attribute '{attribute}'", name=attribute, obj=self
        )

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError("property of '_CudaDeviceProperties' object has no setter")

    def __repr__(self) -> str:
        d: Device = self.__dict__["_device"]
        capability = d.known("capability", ("unknown", "unknown"))
        arch = f", gcnArchName='{d.known('gcn_arch_name')}'" if d.world.platform == "rocm" else ""
        pci = d.known("pci_bus_id")
        where = [_pci(d, part) for part in (1, 2, 0)] if pci else ["unknown"] * 3
        return (
            f"_CudaDeviceProperties(name='{d.known('name')}', major={capability[0]}, minor={capability[1]}{arch}, "
            f"total_memory={_megabytes(d.known('total_memory'))}, "
            f"multi_processor_count={d.known('multi_processor_count', 'unknown')}, "
            f"uuid={_uuid(str(d.known('uuid', 'unknown')), d.world.platform == 'rocm')}, pci_bus_id={where[0]}, "
            f"pci_device_id={where[1]}, pci_domain_id={where[2]}, L2_cache_size={_megabytes(d.known('l2_cache_size'))})"
        )


class _XpuDeviceProperties:
    """Properties of an XPU device."""

    def __init__(self, device: Device) -> None:
        self.__dict__["_device"] = device

    def __getattr__(self, attribute: str) -> Any:
        device: Device = self.__dict__["_device"]
        if attribute in XPU_KEYS:
            key = _XPU_RENAMED.get(attribute, attribute)
            value = device.get(key, f"torch.xpu.get_device_properties().{attribute}")
            return _XPU_FORM[attribute](value) if attribute in _XPU_FORM else value
        if attribute == "uuid":
            return Uuid(str(device.get("uuid", "torch.xpu.get_device_properties().uuid")))
        raise AttributeError(
            f"'torch._C._XpuDeviceProperties' object has no attribute '{attribute}'", name=attribute, obj=self
        )

    def __dir__(self) -> list[str]:
        # torch.xpu.get_device_capability walks dir(): only what the machine knows can be listed.
        device: Device = self.__dict__["_device"]
        known = [name for name in XPU_KEYS if device.known(_XPU_RENAMED.get(name, name)) is not None]
        return known + (["uuid"] if device.known("uuid") else [])

    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError("property of '_XpuDeviceProperties' object has no setter")

    def __repr__(self) -> str:
        d: Device = self.__dict__["_device"]

        def show(name: str, unit: str = "") -> str:
            value = d.known(_XPU_RENAMED.get(name, name))
            if value is None:
                return "unknown"
            value = _XPU_FORM[name](value) if name in _XPU_FORM else value
            return f"{int(value) if isinstance(value, bool) else value}{unit}"

        number = d.known("device_id")
        sizes = " ".join(str(n) for n in d.known("sub_group_sizes", ["unknown"]))
        return (
            f"_XpuDeviceProperties(name='{show('name')}', platform_name='{show('platform_name')}', "
            f"type='{show('type')}', "
            f"device_id={hex(number).upper().replace('X', 'x') if isinstance(number, int) else 'unknown'}, "
            f"uuid={show('uuid')}, driver_version='{show('driver_version')}', "
            f"total_memory={_megabytes(d.known('total_memory'))}, "
            f"local_mem_size={_kilobytes(d.known('local_mem_size'))}, "
            f"last_level_cache_size={_kilobytes(d.known('last_level_cache_size'))}, "
            f"max_compute_units={show('max_compute_units')}, memory_clock_rate={show('memory_clock_rate', 'MHz')}, "
            f"memory_bus_width={show('memory_bus_width', '-bit')}, "
            f"gpu_eu_count={show('gpu_eu_count')}, gpu_subslice_count={show('gpu_subslice_count')}, "
            f"max_work_group_size={show('max_work_group_size')}, max_num_sub_groups={show('max_num_sub_groups')}, "
            f"sub_group_sizes=[{sizes}], has_fp16={show('has_fp16')}, has_fp64={show('has_fp64')}, "
            f"has_atomic64={show('has_atomic64')}, is_integrated_gpu={show('is_integrated_gpu')})"
        )


def cuda_properties(device: Device) -> _CudaDeviceProperties:
    return _CudaDeviceProperties(device)


def xpu_properties(device: Device) -> _XpuDeviceProperties:
    return _XpuDeviceProperties(device)
