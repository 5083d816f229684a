"""Which path a launcher takes for its tensors: Triton, or plain torch."""

from __future__ import annotations

import functools
import importlib.metadata

import torch

from blockscale import envs
from blockscale.platforms import Arch, current_platform

# The first Triton release whose compiler is right for an arch; older ones fail or, worse, give wrong numbers.
_FIRST_TRITON = {"gfx1250": (3, 7, 1), "sm_103": (3, 6, 0)}


def runs_on_triton(tensor: torch.Tensor) -> bool:
    """Whether a kernel on this tensor is Triton's: on every device but the CPU, and there under TRITON_INTERPRET=1."""
    return tensor.device.type != "cpu" or envs.interpreting()


def arch_of(tensor: torch.Tensor) -> Arch | None:
    """The arch that a kernel on this tensor is compiled for; None for a CPU tensor, which the interpreter runs.

    Raises RuntimeError, with what to install, if Triton is missing or too old for the arch.
    """
    return None if tensor.device.type == "cpu" else _arch_of_device(tensor.device)


@functools.cache
def _arch_of_device(device: torch.device) -> Arch:
    arch = current_platform.device_arch(device)
    needed = _FIRST_TRITON.get(arch.name, (3, 0, 0))
    found = triton_version()
    if found is None:
        raise RuntimeError(f"Triton is not installed, and kernels on {device} need it: pip install blockscale[triton]")
    if found < needed:
        has, wants = ".".join(map(str, found)), ".".join(map(str, needed))
        raise RuntimeError(f"Triton {has} is too old for {arch}, which needs {wants} or newer")
    return arch


def has_fp8_type(arch: Arch | None) -> bool:
    """Whether Triton has e4m3 there: on NVIDIA from sm_89 on (before, a kernel must decode codes), elsewhere always."""
    return arch is None or arch.vendor != "nvidia" or arch.capability >= (8, 9)


def triton_version() -> tuple[int, ...] | None:
    """The installed Triton's version, None if there is none. Nothing is imported."""
    for distribution in ("triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-xpu"):
        try:
            text = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        return tuple(int(part) for part in text.split("+")[0].split(".")[:3] if part.isdigit())
    return None
