"""The platform's own answers about a device that is opened."""

from __future__ import annotations

import torch


def device_arch() -> str:
    """The arch of the first device, as a launcher asks for it that holds a tensor there."""
    from blockscale.platforms import current_platform

    return str(current_platform.device_arch(torch.device(current_platform.device_type, 0)))
