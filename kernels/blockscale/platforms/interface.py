"""What every platform answers. One subclass per platform, in a module of its own that only that platform imports."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from blockscale.platforms.arch import Arch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Inventory:
    """The cards of this host as a management library lists them, without opening any.

    `archs` has one entry per visible card; empty means that there is certainly none; None means that nobody could say.
    `source` says who answered, or why nobody did.
    """

    archs: tuple[Arch, ...] | None
    source: str


def first_answer(*askers: Callable[[], Inventory]) -> Inventory:
    """The first inventory that knows; if none does, an unknown one with all the reasons."""
    reasons = []
    for ask in askers:
        inventory = ask()
        if inventory.archs is not None:
            return inventory
        reasons.append(inventory.source)
    return Inventory(None, "; ".join(reasons))


class Platform:
    """A platform: what this process can run on. Nothing here touches a device but `device_arch`."""

    name: ClassVar[str]
    """cuda, rocm, xpu or cpu."""
    device_type: ClassVar[str]
    """torch's device type: cuda on ROCm too."""

    def is_cuda(self) -> bool:
        return self.name == "cuda"

    def is_rocm(self) -> bool:
        return self.name == "rocm"

    def is_xpu(self) -> bool:
        return self.name == "xpu"

    def is_cpu(self) -> bool:
        return self.name == "cpu"

    @functools.cached_property
    def inventory(self) -> Inventory:
        """The cards of this host, asked once per process."""
        return self._inventory()

    def _inventory(self) -> Inventory:
        raise NotImplementedError

    @property
    def arch(self) -> Arch | None:
        """The arch that all cards of this host share; None where unknown: `why_no_arch` says why. Opens no device."""
        archs = set(self.inventory.archs or ())
        return archs.pop() if len(archs) == 1 else None

    @property
    def why_no_arch(self) -> str:
        """Why `arch` is None, as the end of a sentence; empty where it is known."""
        archs = sorted({arch.name for arch in self.inventory.archs or ()})
        if len(archs) == 1:
            return ""
        if archs:
            return f"the cards of this host differ ({', '.join(archs)}): choose some with the visible-devices variable"
        return self.inventory.source

    def device_arch(self, device: torch.device) -> Arch:
        """The arch of one device, for a launcher that holds a tensor on it. **Touches the device**: never at import."""
        raise NotImplementedError

    def ask_device(self, device: torch.device) -> Arch:
        """As `device_arch`, and if the inventory could not say, `arch` is known from now on. **Touches the device.**"""
        arch = self.device_arch(device)
        if self.inventory.archs is None:
            self.__dict__["inventory"] = Inventory((arch,), "the device itself")
        return arch

    def fp8_dtype(self) -> torch.dtype:
        """The e4m3 flavour that this platform's matrix units take: fnuz on gfx942, fn everywhere else."""
        import torch

        fnuz = self.arch is not None and self.arch.fp8_is_fnuz
        return torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn

    def __repr__(self) -> str:
        return f"<{self.name} platform, {self.arch or 'arch unknown: ' + self.why_no_arch}>"
