"""What the MXFP4 MoE does not take, as ValueErrors before anything runs."""

from __future__ import annotations

import torch

from blockscale.formats import mx
from blockscale.kernels.checks import expect, expect_contiguous, expect_dtype, expect_same_device, expect_shape

ACTIVATION_FORMATS = ("bf16", "mxfp8", "mxfp4", "fp8")
"""What the activations are rounded to before each GEMM: nothing, MX blocks of 32, or e4m3 in groups of 128."""


def check_weights(
    w13: torch.Tensor, w13_scale: torch.Tensor, w2: torch.Tensor, w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None, hidden_pad: int, intermediate_pad: int,
) -> None:  # fmt: skip
    for name, weight in {"w13": w13, "w2": w2}.items():
        expect(weight.dim() == 3, name, f"{weight.dim()} dimensions", "three, (experts, rows, columns / 2)")
        expect_dtype(name, weight, (torch.uint8,))
        expect_contiguous(name, weight)
    E, hidden, intermediate = w2.shape[0], w2.shape[1], w2.shape[2] * 2
    is_whole = hidden % mx.BLOCK == 0 and intermediate % mx.BLOCK == 0 and E > 0 and hidden > 0 and intermediate > 0
    expect(is_whole, "w2", f"shape {tuple(w2.shape)}", f"(E, H, I / 2) with H and I multiples of {mx.BLOCK}")
    expect_shape("w13", w13, (E, 2 * intermediate, hidden // 2), "(E, 2 I, H / 2) for w2's (E, H, I / 2)")
    expect_shape("w13_scale", w13_scale, (E, 2 * intermediate, hidden // mx.BLOCK), "one scale per row and block of 32")
    expect_shape("w2_scale", w2_scale, (E, hidden, intermediate // mx.BLOCK), "one scale per row and block of 32")
    for name, scale in {"w13_scale": w13_scale, "w2_scale": w2_scale}.items():
        expect_dtype(name, scale, (torch.uint8,))
        expect_contiguous(name, scale)
    _check_biases_and_pads(E, hidden, intermediate, w13_bias, w2_bias, hidden_pad, intermediate_pad)


def check_prepared(
    w13: torch.Tensor, w2: torch.Tensor, w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None,
    hidden_pad: int, intermediate_pad: int,
) -> None:  # fmt: skip
    for name, weight in {"w13": w13, "w2": w2}.items():
        expect(weight.dim() == 3, name, f"{weight.dim()} dimensions", "three, (experts, rows, columns)")
        expect_dtype(name, weight, (torch.bfloat16,))
        expect_contiguous(name, weight)
    E, hidden, intermediate = w2.shape
    expect(w2.numel() > 0, "w2", f"shape {tuple(w2.shape)}", "(E, H, I), none of them 0")
    expect_shape("w13", w13, (E, 2 * intermediate, hidden), "(E, 2 I, H) for w2's (E, H, I)")
    _check_biases_and_pads(E, hidden, intermediate, w13_bias, w2_bias, hidden_pad, intermediate_pad)


def _check_biases_and_pads(
    experts: int, hidden: int, intermediate: int, w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None,
    hidden_pad: int, intermediate_pad: int,
) -> None:  # fmt: skip
    if w13_bias is not None:
        expect_shape("w13_bias", w13_bias, (experts, 2 * intermediate), "one for each row of w13")
    if w2_bias is not None:
        expect_shape("w2_bias", w2_bias, (experts, hidden), "one for each row of w2")
    for name, pad, size in (("hidden_pad", hidden_pad, hidden), ("intermediate_pad", intermediate_pad, intermediate)):
        is_part = isinstance(pad, int) and 0 <= pad < size and pad % 2 == 0
        expect(is_part, name, pad, f"an even number from 0 to {size - 2}")


def check_tokens(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, w13: torch.Tensor, hidden: int,
    expert_map: torch.Tensor | None, activation_format: str,
) -> None:  # fmt: skip
    expect(x.dim() == 2 and x.shape[1] == hidden, "x", f"shape {tuple(x.shape)}", f"(M, {hidden})")
    expect_dtype("x", x, (torch.bfloat16,))
    expect_contiguous("x", x)
    expect(
        topk_ids.dim() == 2 and len(topk_ids) == len(x), "topk_ids", f"shape {tuple(topk_ids.shape)}", f"({len(x)}, k)"
    )
    expect(topk_ids.shape[1] > 0, "topk_ids", f"shape {tuple(topk_ids.shape)}", "at least one expert per token")
    expect_dtype("topk_ids", topk_ids, (torch.int32, torch.int64))
    expect_shape("topk_weights", topk_weights, topk_ids.shape, "as topk_ids")
    expect_dtype("topk_weights", topk_weights, (torch.float32, torch.bfloat16, torch.float16))
    expect(
        activation_format in ACTIVATION_FORMATS,
        "activation_format",
        repr(activation_format),
        f"one of {ACTIVATION_FORMATS}",
    )
    experts = w13.shape[0]
    if expert_map is not None:
        expect(expert_map.dim() == 1, "expert_map", f"shape {tuple(expert_map.shape)}", "(global experts,)")
        expect_dtype("expert_map", expert_map, (torch.int32, torch.int64))
        experts = len(expert_map)
    expect_same_device(x=x, topk_weights=topk_weights, topk_ids=topk_ids, w13=w13)
    if x.device.type == "cpu" and topk_ids.numel():  # asking a device would stall its stream
        low, high = int(topk_ids.min()), int(topk_ids.max())
        expect(low >= 0 and high < experts, "topk_ids", f"ids from {low} to {high}", f"ids from 0 to {experts - 1}")
        if expert_map is not None:
            low, high = int(expert_map.min()), int(expert_map.max())
            in_range = low >= -1 and high < w13.shape[0]
            expect(in_range, "expert_map", f"local ids from {low} to {high}", f"-1, or 0 to {w13.shape[0] - 1}")
