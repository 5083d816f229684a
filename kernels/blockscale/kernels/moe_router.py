"""Routing of an MoE: from a router's logits to the experts of each token and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from blockscale.kernels import dispatch
from blockscale.kernels.checks import expect, expect_contiguous, expect_dtype, expect_same_device, expect_shape

SCORES = ("softmax", "sigmoid")

EPSILON = 1e-20
"""Added to the sum of sigmoids before it divides (DeepSeek-V3's modeling_deepseek.py, MoEGate)."""


@dataclass(frozen=True)
class Router:
    """How a token's `top_k` experts and their weights follow from its logits.

    "softmax" weighs an expert by its softmax over all experts; with `renormalize` the weights of the chosen ones add up
    to 1, which is the softmax over the chosen (gpt-oss, Mixtral). "sigmoid" weighs each by itself, and `renormalize`
    divides by their sum (DeepSeek-V3). Weights are multiplied by `scale` last.
    """

    top_k: int
    scores: str = "softmax"
    renormalize: bool = True
    scale: float = 1.0


class Logits(NamedTuple):
    """What the experts of each token are chosen by, where a kernel is to do that on its way; see `route`."""

    logits: torch.Tensor
    router: Router
    correction: torch.Tensor | None


def route(
    logits: torch.Tensor, router: Router, correction: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (M, k) fp32 and experts (M, k) int32 of logits (M, E) bf16, fp16 or fp32, the first choice first.

    Experts are chosen by their logits, in fp32; with `correction` (E,) fp32, which sigmoids alone take, by score plus
    correction, which the weights do not have. Of equal ones the lower id comes first. NaN counts as the largest, so
    that a token with such a logit has NaN weights: all of a softmax, or of renormalized sigmoids, else its expert's. A
    token's bits depend on M, k and E, not on the other tokens. While torch compiles it is a custom op. It has no
    gradient. Raises ValueError, before anything runs, for what does not fit.
    """
    check_logits(logits, router, correction)
    if torch.compiler.is_compiling():
        chosen: tuple[torch.Tensor, torch.Tensor] = torch.ops.blockscale.route(
            logits, correction, router.top_k, router.scores, router.renormalize, router.scale
        )
        return chosen
    if dispatch.runs_on_triton(logits) and logits.numel():
        return _triton(logits, router, correction)
    return _torch(logits, router, correction)


def check_logits(logits: torch.Tensor, router: Router, correction: torch.Tensor | None) -> None:
    """Raise ValueError for what `route` does not take."""
    expect(logits.dim() == 2, "logits", f"{logits.dim()} dimensions", "two, (M, E)")
    expect_dtype("logits", logits, (torch.float32, torch.bfloat16, torch.float16))
    expect_contiguous("logits", logits)
    experts = logits.shape[1]
    is_count = isinstance(router.top_k, int) and 1 <= router.top_k <= experts
    expect(is_count, "router.top_k", repr(router.top_k), f"1 to {experts}, the number of experts")
    expect(router.scores in SCORES, "router.scores", repr(router.scores), f"one of {SCORES}")
    if correction is not None:
        expect(router.scores == "sigmoid", "correction", "a tensor", "None: a softmax takes no correction")
        expect_shape("correction", correction, (experts,), "one for each expert")
        expect_dtype("correction", correction, (torch.float32,))
        expect_contiguous("correction", correction)
        expect_same_device(logits=logits, correction=correction)


@dispatch.on_its_device
def _triton(logits: torch.Tensor, router: Router, correction: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    dispatch.arch_of(logits)  # says so if Triton is missing or too old
    from blockscale.kernels.triton import moe_router as kernel

    weights, ids = empty(logits, router)
    kernel.route(logits, router, correction, False, weights, ids)
    return weights, ids


def empty(logits: torch.Tensor, router: Router) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for what `route` gives."""
    shape = logits.shape[0], router.top_k
    return logits.new_empty(shape, dtype=torch.float32), logits.new_empty(shape, dtype=torch.int32)


@torch.no_grad()
def _torch(logits: torch.Tensor, router: Router, correction: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    wide = logits.float()
    scores = wide.softmax(-1) if router.scores == "softmax" else wide.sigmoid()
    order = wide if correction is None else scores + correction
    ids = order.sort(dim=-1, descending=True, stable=True).indices[:, : router.top_k]
    if router.scores == "softmax" and router.renormalize:
        weights = wide.gather(1, ids).softmax(-1)
    else:
        weights = scores.gather(1, ids)
        if router.renormalize:
            weights = weights / (weights.sum(-1, keepdim=True) + EPSILON)
    return weights * router.scale, ids.int()


@torch.library.custom_op("blockscale::route", mutates_args=())
def _op(
    logits: torch.Tensor, correction: torch.Tensor | None, top_k: int, scores: str, renormalize: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return route(logits, Router(top_k, scores, renormalize, scale), correction)


@_op.register_fake
def _(
    logits: torch.Tensor, correction: torch.Tensor | None, top_k: int, scores: str, renormalize: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return empty(logits, Router(top_k))
