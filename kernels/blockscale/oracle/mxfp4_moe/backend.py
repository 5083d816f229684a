"""What a backend of the MXFP4 MoE is beyond its requirements: how weights are converted for it, and the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from blockscale.kernels.moe_operator import Run
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.oracle.mxfp4_moe.problem import Mxfp4MoEProblem
from blockscale.oracle.mxfp4_moe.weights import Mxfp4MoEWeights
from blockscale.oracle.selection import Backend, backends_in

Convert = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None, bool],
    Mxfp4MoEWeights,
]
"""w13, w2, w13_scale, w2_scale, w13_bias, w2_bias and whether w13's rows are interleaved, as a checkpoint has them."""


@dataclass(frozen=True)
class MoEBackend(Backend[Mxfp4MoEProblem]):
    """A backend and how it runs. Without `convert`, `convert_weight_to_mxfp4_moe_kernel_format` knows its layout."""

    run: Run = mxfp4_moe
    convert: Convert | None = None


def conversion_of(name: str) -> Convert | None:
    """The conversion that a backend's own file holds; None where it holds none, or there is no such backend."""
    known = (each for each in backends_in(__package__) if isinstance(each, MoEBackend))
    return next((backend.convert for backend in known if backend.name == name), None)
