"""Intel: only torch.xpu says the arch, and it opens the card, so only a call may ask. Imported only on XPU builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockscale.platforms.arch import Arch
from blockscale.platforms.interface import Inventory, Platform

if TYPE_CHECKING:
    import torch

# PCI device ids by architecture. Source: compute-runtime, shared/source/dll/devices/devices_base.inl.
_DEVICE_IDS = {
    "pvc": frozenset({0x0BD0, 0x0BD4, 0x0BD5, 0x0BD6, 0x0BD7, 0x0BD8, 0x0BD9, 0x0BDA, 0x0BDB, 0x0B69, 0x0B6E}),
    "dg2": frozenset(range(0x5690, 0x5698)) | frozenset(range(0x56A0, 0x56A7)) | {0x56B0, 0x56B1, 0x56C0, 0x56C1},
    "bmg": frozenset({0xE202, 0xE20B, 0xE20C, 0xE20D, 0xE210, 0xE211, 0xE212, 0xE215, 0xE216}),
}


class XpuPlatform(Platform):
    name = "xpu"
    device_type = "xpu"

    def _inventory(self) -> Inventory:
        return Inventory(None, "the arch of an XPU is only known once it is open")

    def device_arch(self, device: torch.device) -> Arch:
        """As `Platform.device_arch`. ValueError for a card whose PCI id is not in the table."""
        import torch

        properties = torch.xpu.get_device_properties(device)
        for name, ids in _DEVICE_IDS.items():
            if properties.device_id in ids:
                return Arch.parse(name)
        raise ValueError(f"device: {properties.name} has PCI id {properties.device_id:#06x}, which names no known arch")
