"""How far a probe reached into a device, as torch sees it, a forked child, and the kernel from outside."""

from __future__ import annotations

import os
import re
from typing import Any

from . import plain, steps

#: Device nodes of GPU drivers, without the number of the card.
_NODE = re.compile(r"/dev/(nvidia(?:ctl|-uvm|-modeset|\d+)|kfd|dri/renderD\d+|accel/accel\d+)")
#: Libraries that talk to a driver: the driver's own part of a runtime, and the management libraries.
_LIBRARY = re.compile(r"/(lib(?:cuda|nvidia-ml|amdhip64|hsa-runtime64|amd_smi|rocm_smi64|ze_loader|ze_intel_gpu))\.so")


def inside() -> bool:
    """Whether torch says that it has initialized a device."""
    import torch

    return bool(torch.cuda.is_initialized() or torch.xpu.is_initialized())


def outside(pid: int) -> dict[str, list[str]] | None:
    """The device nodes that a process has open and the driver libraries that it has mapped. None without /proc."""
    try:
        files = [_readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            mapped = _LIBRARY.findall(maps.read())
    except OSError:
        return None
    opened = [found[1] for found in map(_NODE.fullmatch, files) if found]
    return {"open": sorted(set(opened)), "mapped": sorted(set(mapped))}


def _readlink(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed in the meantime
        return ""


def from_child() -> str:
    """What a forked child meets that wants to use the device: `usable`, or its error."""

    def attempt() -> dict[str, Any]:
        import torch

        try:
            (torch.xpu if torch.xpu._is_compiled() else torch.cuda).init()
        except Exception as error:
            return plain.error(error)
        return {"value": "usable"}

    answer = steps.in_fork(attempt)
    return str(answer.get("value") or "{error}: {message}".format(**answer))
