"""Routing of an MoE in Triton: `choose` picks a token's experts and weighs them, `route` launches that alone."""

from __future__ import annotations

from typing import Any

import torch

from blockscale.kernels.moe_router import EPSILON, Router
from blockscale.kernels.triton.language import let_next_start, tl, triton, wait_for_previous

_EPSILON = tl.constexpr(EPSILON)
_ELEMENTS = 2048  # of logits to a program


@triton.jit
def _ordered(value, expert, EXPERTS: tl.constexpr):
    """int64 keys whose order is that of fp32 values, NaN above all, and among equal ones that of falling ids."""
    bits = value.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    bits = tl.where(value == 0, 0, bits)  # both zeros
    bits = tl.where(value != value, 0x7FFFFFFF, bits)
    return bits.to(tl.int64) * 4294967296 + (EXPERTS - 1 - expert)


@triton.jit
def choose(
    logits,  # (tokens, experts)
    correction,  # (experts,) fp32, read if CORRECTED
    token,  # (T,)
    tokens,
    experts,
    scale,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,  # TOP_K, up to a power of two
    EXPERTS: tl.constexpr,  # the same for experts
    SIGMOID: tl.constexpr,
    CORRECTED: tl.constexpr,
    RENORMALIZE: tl.constexpr,
):
    """Experts and their weights, (T, SLOTS) int32 and fp32, of these tokens; -1 where no slot or no token is."""
    row = (logits + tl.minimum(token, tokens - 1).to(tl.int64) * experts)[:, None]  # past the end the last one's again
    expert = tl.arange(0, EXPERTS)[None, :]
    logit = tl.load(row + expert, mask=expert < experts, other=float("-inf")).to(tl.float32)
    value = logit
    if CORRECTED:
        value = 1.0 / (1.0 + tl.exp(-logit)) + tl.load(correction + expert, mask=expert < experts, other=0.0)
    key = tl.where(expert < experts, _ordered(value, expert, EXPERTS), -0x7FFFFFFFFFFFFFFF)
    slot = tl.arange(0, SLOTS)[None, :]
    ids = tl.zeros((token.shape[0], SLOTS), tl.int32) - 1
    for place in tl.static_range(TOP_K):
        best = EXPERTS - 1 - (tl.max(key, 1) & 0x7FFFFFFF).to(tl.int32)[:, None]
        ids = tl.where(slot == place, best, ids)
        key = tl.where(expert == best, -0x7FFFFFFFFFFFFFFF, key)
    chosen = tl.load(row + ids, mask=ids >= 0, other=float("-inf")).to(tl.float32)
    if SIGMOID:
        weights = 1.0 / (1.0 + tl.exp(-chosen))
        total = tl.sum(weights, 1) + _EPSILON
    else:
        largest = tl.max(logit, 1)[:, None]
        weights = tl.exp(chosen - largest)
        total = tl.sum(weights if RENORMALIZE else tl.exp(logit - largest), 1)
    if RENORMALIZE or not SIGMOID:
        weights = weights / total[:, None]
    return tl.where((token < tokens)[:, None], ids, -1), weights * scale


@triton.jit
def _route(
    logits,
    correction,
    topk_weights,  # (tokens, TOP_K) fp32, written
    topk_ids,  # (tokens, TOP_K) int32, written
    tokens,
    experts,
    scale,
    TOP_K: tl.constexpr,
    SLOTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    SIGMOID: tl.constexpr,
    CORRECTED: tl.constexpr,
    RENORMALIZE: tl.constexpr,
    EARLY: tl.constexpr,
    ROWS: tl.constexpr,
):
    if EARLY:
        let_next_start()
        wait_for_previous()
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    ids, weights = choose(
        logits, correction, token, tokens, experts, scale, TOP_K, SLOTS, EXPERTS, SIGMOID, CORRECTED, RENORMALIZE
    )
    to = token.to(tl.int64)[:, None] * TOP_K + tl.arange(0, SLOTS)[None, :]
    tl.store(topk_ids + to, ids, mask=ids >= 0)
    tl.store(topk_weights + to, weights, mask=ids >= 0)


def ways(router: Router, correction: torch.Tensor | None, experts: int) -> dict[str, Any]:
    """What `choose` must know when it is compiled, by name."""
    return {
        "TOP_K": router.top_k,
        "SLOTS": triton.next_power_of_2(router.top_k),
        "EXPERTS": triton.next_power_of_2(experts),
        "SIGMOID": router.scores == "sigmoid",
        "CORRECTED": correction is not None,
        "RENORMALIZE": router.renormalize,
    }


def route(
    logits: torch.Tensor,
    router: Router,
    correction: torch.Tensor | None,
    early: bool,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
) -> None:
    """Launch: weights (M, k) fp32 and experts (M, k) int32 of logits (M, E), as `kernels.moe_router.route` has them.

    `early`: on an arch with programmatic dependent launch.
    """
    tokens, experts = logits.shape
    how = ways(router, correction, experts)
    rows = max(1, min(triton.next_power_of_2(tokens), _ELEMENTS // how["EXPERTS"]))
    _route[(triton.cdiv(tokens, rows),)](
        logits, logits if correction is None else correction, topk_weights, topk_ids, tokens, experts, router.scale,
        **how, EARLY=early, ROWS=rows, **({"launch_pdl": True} if early else {}),
    )  # fmt: skip
