"""No accelerator: everything runs on torch's CPU path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockscale.platforms.arch import Arch
from blockscale.platforms.interface import Inventory, Platform

if TYPE_CHECKING:
    import torch


class CpuPlatform(Platform):
    name = "cpu"
    device_type = "cpu"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def _inventory(self) -> Inventory:
        return Inventory((), self.reason)

    def device_arch(self, device: torch.device) -> Arch:
        """A CPU has no GPU arch: always ValueError."""
        raise ValueError(f"device: got {device}, expected a GPU, but {self.reason}")
