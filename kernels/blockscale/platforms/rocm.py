"""AMD: cards by amdsmi, else by the kernel driver's topology. Imported only where torch is built for ROCm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blockscale.platforms.arch import Arch
from blockscale.platforms.current import current_platform
from blockscale.platforms.interface import Inventory, Platform, first_answer
from blockscale.platforms.visible import output_of, visible

if TYPE_CHECKING:
    import torch

# ROCR's variable filters before HIP's, and HIP reads CUDA's name too; one of them is usually set.
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_DRIVER_NOT_LOADED = 34  # AMDSMI_STATUS_DRIVER_NOT_LOADED, amdsmi.h
# What HIP opens: the kernel driver's node, or under WSL, where amdsmi finds no driver, the host's.
_WAYS_TO_A_CARD = ("/dev/kfd", "/dev/dxg")
_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


class RocmPlatform(Platform):
    name = "rocm"
    device_type = "cuda"

    def _inventory(self) -> Inventory:
        return first_answer(_ask_amdsmi, _ask_topology, _ask_agent_enumerator)

    def device_arch(self, device: torch.device) -> Arch:
        import torch

        return Arch.parse(torch.cuda.get_device_properties(device).gcnArchName)


def on_gfx942() -> bool:
    """Whether this host's cards are MI300A, MI300X or MI325X."""
    return _on("gfx942")


def on_gfx950() -> bool:
    """Whether this host's cards are MI350X or MI355X."""
    return _on("gfx950")


def on_gfx1250() -> bool:
    """Whether this host's cards are gfx1250 (not RDNA4, whose gfx1200 and gfx1201 only look alike)."""
    return _on("gfx1250")


def _on(name: str) -> bool:
    arch = current_platform.arch
    return arch is not None and arch.name == name


def _ask_amdsmi() -> Inventory:
    # amdsmi loads its shared library when imported and raises whatever the loader raises.
    try:
        import amdsmi
    except (ImportError, OSError, KeyError, AttributeError) as error:
        return Inventory(None, f"amdsmi cannot be imported ({error})")
    try:
        amdsmi.amdsmi_init()
    except amdsmi.AmdSmiException as error:
        no_driver = getattr(error, "err_code", None) == _DRIVER_NOT_LOADED
        if no_driver and not any(os.path.exists(path) for path in _WAYS_TO_A_CARD):
            return Inventory((), f"amdsmi finds no driver ({_one_line(error)})")
        return Inventory(None, f"amdsmi fails ({_one_line(error)})")
    try:
        return _list_cards(amdsmi)
    except amdsmi.AmdSmiException as error:
        return Inventory(None, f"amdsmi fails ({_one_line(error)})")
    finally:
        amdsmi.amdsmi_shut_down()


def _list_cards(smi: Any) -> Inventory:
    handles = smi.amdsmi_get_processor_handles()
    if not handles:
        return Inventory((), "amdsmi lists no card")
    names = [str(smi.amdsmi_get_gpu_asic_info(handle)["target_graphics_version"]) for handle in handles]
    return _parsed(names, "amdsmi")


def _ask_topology() -> Inventory:
    """The kernel driver's own list. A node without a gfx version (0) is a CPU; 90402 is gfx942, 90010 gfx90a."""
    archs = []
    for properties in sorted(_TOPOLOGY.glob("*/properties"), key=lambda path: int(path.parent.name)):
        try:
            lines = [line.split() for line in properties.read_text().splitlines()]
        except OSError as error:
            return Inventory(None, f"the kernel driver's topology cannot be read ({error})")
        version = int(dict(line for line in lines if len(line) == 2).get("gfx_target_version", 0))
        if version:
            archs.append(Arch.from_gfx_version(version // 10000, version // 100 % 100, version % 100))
    if not archs:
        return Inventory(None, "the kernel driver lists no card")
    return Inventory(visible(archs, [], *_VISIBLE), "the kernel driver's topology")


def _ask_agent_enumerator() -> Inventory:
    names = (output_of("rocm_agent_enumerator") or "").split()
    gpus = [name for name in names if name != "gfx000"]  # gfx000 is the CPU's agent
    return _parsed(gpus, "rocm_agent_enumerator") if gpus else Inventory(None, "rocm_agent_enumerator does not say")


def _parsed(names: list[str], source: str) -> Inventory:
    try:
        archs = [Arch.parse(name) for name in names]
    except ValueError as error:
        return Inventory(None, f"{source}: {error}")
    return Inventory(visible(archs, [], *_VISIBLE), source)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
