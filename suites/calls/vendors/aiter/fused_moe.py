"""AITER's MoE, from its layouts: bytes shuffled, gates and ups in turns of 16 rows, biases in halves."""

from __future__ import annotations

import torch
from checks import layouts, reference

import aiter

#: (hidden_pad, intermediate_pad) of each call.
PADS: list[tuple[int, int]] = []
#: expert_mask of each call.
MASKS: list[torch.Tensor | None] = []


def fused_moe(
    hidden_states, w1, w2, topk_weight, topk_ids, expert_mask=None, activation=aiter.ActivationType.Silu,
    quant_type=aiter.QuantType.No, w1_scale=None, w2_scale=None, hidden_pad=0, intermediate_pad=0, bias1=None,
    bias2=None,
):  # fmt: skip
    """(M, H) as hidden_states, whose H is that of the padded weights."""
    PADS.append((hidden_pad, intermediate_pad))
    MASKS.append(expert_mask)
    if expert_mask is not None:
        # The experts that are here, counted in the order of their global ids.
        local = expert_mask.cumsum(0) - 1
        topk_weight, topk_ids = topk_weight * expert_mask[topk_ids.long()], local[topk_ids.long()].clamp(min=0)
    w1, w2, w1_scale, w2_scale = (tensor.view(torch.uint8) for tensor in (w1, w2, w1_scale, w2_scale))
    rows, hidden = w1.shape[1], w2.shape[1]
    if hidden_states.shape[1] != hidden or rows % 512 or hidden % 256:
        raise ValueError(f"hidden_states {tuple(hidden_states.shape)} for w1 {tuple(w1.shape)}, w2 {tuple(w2.shape)}")
    w13 = reference.mxfp4(
        layouts.taken(w1, "shuffled in turns", rows, hidden // 2),
        layouts.taken(w1_scale, "e8m0 in turns", rows, hidden // 32),
    )
    down = reference.mxfp4(
        layouts.taken(w2, "shuffled", hidden, rows // 4), layouts.taken(w2_scale, "e8m0", hidden, rows // 64)
    )
    if activation is aiter.ActivationType.Silu:
        name, w13 = "silu", torch.cat([w13[:, 0::2], w13[:, 1::2]], 1)
    else:
        name, bias1 = "swigluoai", torch.stack(bias1.chunk(2, -1), -1).flatten(-2)
    out = reference.moe(hidden_states, topk_weight, topk_ids, w13, down, bias1, bias2, name)
    return out.to(hidden_states.dtype)
