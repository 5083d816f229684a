"""NVIDIA: cards by NVML (`pynvml`), else by nvidia-smi. Imported only where torch is built for CUDA."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from blockscale.platforms.arch import Arch
from blockscale.platforms.interface import Inventory, Platform, first_answer
from blockscale.platforms.visible import output_of, visible

if TYPE_CHECKING:
    import torch

# nvml.h, nvmlReturn_t.
_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND = 9, 12
# What the kernel driver leaves, on Linux and in WSL. A container without the driver's utilities has these and no NVML.
_SIGNS_OF_A_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")


class CudaPlatform(Platform):
    name = "cuda"
    device_type = "cuda"

    def _inventory(self) -> Inventory:
        return first_answer(_ask_nvml, _ask_nvidia_smi)

    def device_arch(self, device: torch.device) -> Arch:
        import torch

        return Arch.from_capability(torch.cuda.get_device_capability(device))


def _ask_nvml() -> Inventory:
    try:
        import pynvml
    except ImportError:
        return Inventory(None, "pynvml is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if _means_no_card(getattr(error, "value", None)):
            return Inventory((), f"NVML finds no usable card ({error})")
        return Inventory(None, f"NVML fails ({error})")
    try:
        return _list_cards(pynvml)
    except pynvml.NVMLError as error:
        return Inventory(None, f"NVML fails ({error})")
    finally:
        pynvml.nvmlShutdown()


def _means_no_card(code: int | None) -> bool:
    """Whether NVML's error means that no card can be used here, and not that NVML cannot say."""
    if code == _LIBRARY_NOT_FOUND:
        return not any(os.path.exists(path) for path in _SIGNS_OF_A_DRIVER)
    return code == _DRIVER_NOT_LOADED


def _list_cards(nvml: Any) -> Inventory:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    archs = [Arch.from_capability(tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))) for handle in handles]
    uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    if not archs:
        return Inventory((), "NVML lists no card")
    return Inventory(_visible(archs, uuids), "NVML")


def _visible(archs: list[Arch], uuids: list[str]) -> tuple[Arch, ...]:
    """The visible cards; all of them where an index would be ambiguous.

    NVML and nvidia-smi count in PCI order, CUDA counts fastest first unless CUDA_DEVICE_ORDER says otherwise: where the
    cards differ, an index then means another card to each.
    """
    by_index = os.environ.get("CUDA_VISIBLE_DEVICES", "")[:1].isdigit()
    if len(set(archs)) > 1 and by_index and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return tuple(archs)
    return visible(archs, uuids, "CUDA_VISIBLE_DEVICES")


def _text(value: str | bytes) -> str:
    """pynvml gave bytes before 11.5."""
    return value.decode() if isinstance(value, bytes) else value


def _ask_nvidia_smi() -> Inventory:
    printed = output_of("nvidia-smi", "--query-gpu=compute_cap,uuid", "--format=csv,noheader")
    rows = [line.split(", ") for line in (printed or "").splitlines()]
    if not rows or any(len(row) != 2 or row[0].count(".") != 1 for row in rows):
        return Inventory(None, "nvidia-smi does not say")
    archs = []
    for capability, _ in rows:
        major, minor = capability.split(".")
        archs.append(Arch.from_capability((int(major), int(minor))))
    return Inventory(_visible(archs, [uuid for _, uuid in rows]), "nvidia-smi")
