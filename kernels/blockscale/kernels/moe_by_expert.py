"""The MoE in plain torch, expert by expert: the rows that each was given, through its bf16 weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import torch

from blockscale.kernels import cpu
from blockscale.kernels.swiglu import SwiGLU


class Expert(NamedTuple):
    """One expert's weights: w13 (2 I_p, H) and w2 (H, I) bf16; biases (2 I_p,) and (H,) fp32, or None.

    w13's gates come first, then its ups, whatever the activation says; of each half the first I rows are read.
    """

    w13: torch.Tensor
    w2: torch.Tensor
    w13_bias: torch.Tensor | None
    w2_bias: torch.Tensor | None


@torch.no_grad()
def by_expert(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    local: torch.Tensor,
    experts: int,
    weights: Callable[[int], Expert],
    activation: SwiGLU,
    rounded: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """(M, H) bf16 of x (M, H) bf16: its tokens' weighted sums over their experts.

    topk_weights: (M, k) fp32. local: (M, k) int64, an expert from 0 to `experts` - 1, or -1 for other ranks'. `weights`
    is asked once for each expert that has a row, and what it gave before may then be overwritten. `rounded` is applied
    to the rows before each product.
    """
    M, top_k, hidden = *local.shape, x.shape[1]
    order = local.flatten().argsort(stable=True)  # assignments by expert, those of other ranks before the first
    first = torch.searchsorted(local.flatten()[order], torch.arange(experts + 1, device=x.device)).tolist()
    given = rounded(x).index_select(0, order // top_k)
    rows = torch.empty(M * top_k, hidden, dtype=x.dtype, device=x.device)
    rows[: first[0]] = 0
    for expert, (start, stop) in enumerate(itertools.pairwise(first)):
        if start == stop:
            continue
        w = weights(expert)
        inner = rounded(_activated(given[start:stop] @ w.w13.T, w.w13_bias, activation, w.w2.shape[1]))
        torch.mm(inner, w.w2.T, out=rows[start:stop])
        if w.w2_bias is not None:
            rows[start:stop] += w.w2_bias
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    out, share = torch.empty_like(x), torch.where(local < 0, 0.0, topk_weights)
    for tokens in cpu.pieces(M, top_k * hidden):
        chosen = rows.index_select(0, place[tokens.start * top_k : tokens.stop * top_k])
        products = chosen.float().mul_(share[tokens].view(-1, 1)).view(-1, top_k, hidden)
        out[tokens] = products.sum(1)
    return out


def _activated(columns: torch.Tensor, bias: torch.Tensor | None, activation: SwiGLU, intermediate: int) -> torch.Tensor:
    """(rows, I) bf16 of columns (rows, 2 I_p), gates first, in fp32 between."""
    out = torch.empty(len(columns), intermediate, dtype=columns.dtype, device=columns.device)
    for rows in cpu.pieces(*columns.shape):
        wide = columns[rows].float()
        if bias is not None:
            wide += bias
        gate, up = wide.chunk(2, -1)
        out[rows] = activation(gate[:, :intermediate], up[:, :intermediate])
    return out
