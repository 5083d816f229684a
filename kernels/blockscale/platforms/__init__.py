"""Which platform and arch this process runs on, found out without touching a device."""

from __future__ import annotations

from blockscale.platforms.arch import Arch
from blockscale.platforms.current import current_platform
from blockscale.platforms.interface import Inventory, Platform

__all__ = ["Arch", "Inventory", "Platform", "current_platform"]
