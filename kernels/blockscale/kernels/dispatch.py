"""Which path a launcher takes for its tensors: Triton, or plain torch."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import torch

from blockscale import envs
from blockscale.platforms import Arch, current_platform

P, R = ParamSpec("P"), TypeVar("R")

# The first Triton release whose compiler is right for an arch; older ones fail or, worse, give wrong numbers.
_OLDEST_TRITON = (3, 0, 0)
_FIRST_TRITON = {"gfx1250": (3, 7, 1), "sm_103": (3, 6, 0)}

# What torch's wheels depend on, by release and platform; all of them are the module `triton`.
_DISTRIBUTIONS = (
    "triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu", "triton-xpu",
)  # fmt: skip


def runs_on_triton(tensor: torch.Tensor) -> bool:
    """Whether a kernel on this tensor is Triton's: on every device but the CPU, and there under TRITON_INTERPRET=1."""
    return tensor.device.type != "cpu" or envs.interpreting()


def on_its_device(launch: Callable[Concatenate[torch.Tensor, P], R]) -> Callable[Concatenate[torch.Tensor, P], R]:
    """Make a launcher run on its first argument's device. Triton launches on the current one, whatever it is given."""

    @functools.wraps(launch)
    def call(x: torch.Tensor, *args: P.args, **named: P.kwargs) -> R:
        if x.device.type == "cpu":
            return launch(x, *args, **named)
        with torch.get_device_module(x.device).device(x.device):
            return launch(x, *args, **named)

    return call


def arch_of(tensor: torch.Tensor) -> Arch | None:
    """The arch that a kernel on this tensor is compiled for; None for a CPU tensor, which the interpreter runs.

    Raises RuntimeError, with what to install, if Triton is missing or too old for the arch.
    """
    return None if tensor.device.type == "cpu" else _arch_of_device(tensor.device)


@functools.cache
def _arch_of_device(device: torch.device) -> Arch:
    arch = current_platform.device_arch(device)
    if why_not := why_not_triton(arch):
        raise RuntimeError(f"Kernels on {device} need Triton. {why_not}")
    return arch


def why_not_triton(arch: Arch | None) -> str:
    """Why Triton's kernels cannot run here, as a sentence with what to install; empty if they can. None: any arch."""
    found, needed = triton_version(), _FIRST_TRITON.get(str(arch), _OLDEST_TRITON)
    if found is None:
        return "Triton is not installed: pip install blockscale[triton]."
    if found < needed:
        return f"Triton {_dotted(found)} is too old for {arch or 'any arch'}: it takes {_dotted(needed)} or newer."
    return ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def has_fp8_type(arch: Arch | None) -> bool:
    """Whether Triton has e4m3 there: on NVIDIA from sm_89 on (before, a kernel must decode codes), elsewhere always."""
    return arch is None or arch.vendor != "nvidia" or arch.capability >= (8, 9)


@functools.cache
def triton_version() -> tuple[int, ...] | None:
    """The installed Triton's version, None if there is none. Nothing is imported."""
    for distribution in _DISTRIBUTIONS:
        try:
            text = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        return tuple(int(number) for number in re.findall(r"\d+", text.split("+")[0])[:3])  # 3.0.0rc1 is 3.0.0
    return None
