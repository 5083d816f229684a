"""`current_platform`: this process's platform, found out when first asked and not when imported."""

from __future__ import annotations

import functools
from typing import Any, cast

from blockscale.platforms.interface import Platform


@functools.cache
def resolve() -> Platform:
    """The platform that torch was built for, or cpu where a management library says that there is no such card.

    Where nobody can say whether there is one (no management library, or it fails), torch's build decides. Hiding cards
    by a visible-devices variable makes no platform vanish: a parent without cards must still decide for its workers.
    """
    platform = _as_built()
    if platform.inventory.archs == () and not platform.is_cpu():
        from blockscale.platforms.cpu import CpuPlatform

        return CpuPlatform(f"torch is built for {platform.name}, but {platform.inventory.source}")
    return platform


def _as_built() -> Platform:
    import torch

    if torch.version.hip:
        from blockscale.platforms.rocm import RocmPlatform

        return RocmPlatform()
    if torch.version.cuda:
        from blockscale.platforms.cuda import CudaPlatform

        return CudaPlatform()
    if getattr(torch.version, "xpu", None):
        from blockscale.platforms.xpu import XpuPlatform

        return XpuPlatform()
    from blockscale.platforms.cpu import CpuPlatform

    return CpuPlatform("torch is built for no accelerator")


class _Lazy:
    """Stands for the platform, so that a module may import `current_platform` by name and resolve nothing."""

    def __getattr__(self, name: str) -> Any:
        # Introspection at import (inspect, doctest, pickle) asks for dunder names; that must resolve nothing either.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(resolve(), name)

    def __repr__(self) -> str:
        return repr(resolve()) if resolve.cache_info().currsize else "<current platform, not asked yet>"


current_platform = cast(Platform, _Lazy())
