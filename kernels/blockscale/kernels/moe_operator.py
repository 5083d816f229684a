"""The MXFP4 MoE as one torch operator, whoever runs it: torch.compile sees a call that gives (M, H), and no more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from blockscale.kernels.swiglu import SwiGLU

Run = Callable[..., torch.Tensor]
"""x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, and by name w13_bias, w2_bias, activation, expert_map,
hidden_pad, intermediate_pad and activation_format, as `kernels.mxfp4_moe.mxfp4_moe` has them: (M, H) as x. Where the
weights' shapes do not tell their layouts, `layouts` too, the names of w13's and w2's."""

_RUNS: dict[str, Run] = {}


def operator(name: str) -> Callable[[Run], Run]:
    """Make a run known to the operator: while torch compiles, its call becomes the operator's. It has no gradient."""

    def decorate(run: Run) -> Run:
        _RUNS[name] = run

        @functools.wraps(run)
        def call(*tensors: torch.Tensor, **named: Any) -> torch.Tensor:
            return (
                through_operator(name, *tensors, **named) if torch.compiler.is_compiling() else run(*tensors, **named)
            )

        return call

    return decorate


def through_operator(
    name: str,
    *tensors: torch.Tensor,
    activation: SwiGLU,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
    hidden_pad: int = 0,
    intermediate_pad: int = 0,
    activation_format: str = "bf16",
    layouts: tuple[str, str] | None = None,
) -> torch.Tensor:
    """Call the run of this name as an operator. An operator takes no objects: the activation goes in its parts."""
    a = activation
    return torch.ops.blockscale.mxfp4_moe(
        name, *tensors, w13_bias, w2_bias, expert_map, a.name, a.interleaved, a.alpha, a.limit, a.shift,
        hidden_pad, intermediate_pad, activation_format, *(layouts or ("", "")),
    )  # fmt: skip


@torch.library.custom_op("blockscale::mxfp4_moe", mutates_args=())
def _op(
    run: str,
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None,
    w2_bias: torch.Tensor | None,
    expert_map: torch.Tensor | None,
    activation: str,
    interleaved: bool,
    alpha: float,
    limit: float | None,
    shift: float,
    hidden_pad: int,
    intermediate_pad: int,
    activation_format: str,
    w13_layout: str,
    w2_layout: str,
) -> torch.Tensor:
    more = {"layouts": (w13_layout, w2_layout)} if w13_layout else {}
    out = _RUNS[run](
        x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale,
        w13_bias=w13_bias,
        w2_bias=w2_bias,
        activation=SwiGLU(activation, interleaved, alpha, limit, shift),
        expert_map=expert_map,
        hidden_pad=hidden_pad,
        intermediate_pad=intermediate_pad,
        activation_format=activation_format,
        **more,
    )  # fmt: skip
    return out.contiguous()  # as the fake promises: a run may give a view of its padded answer


@_op.register_fake
def _(run: str, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
