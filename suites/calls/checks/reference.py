"""The wanted numbers: formats, GEMMs and the MoE in float64, by the formulas alone and with nothing of blockscale."""

from __future__ import annotations

import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # OCP Microscaling Formats 1.0, section 5.3.3; bit 3 is the sign


def mxfp4(packed: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """(..., K) of packed e2m1 (..., K / 2), the even element low, and e8m0 codes (..., K / 32), none of them NaN."""
    values = torch.tensor(E2M1 + tuple(-value for value in E2M1), dtype=torch.float64)
    elements = torch.stack([values[(packed & 15).int()], values[(packed >> 4).int()]], -1).flatten(-2)
    return elements * torch.exp2(codes.double() - 127).repeat_interleave(32, -1)


def mxfp4_codes(x: torch.Tensor, rounding: str = "even") -> tuple[torch.Tensor, torch.Tensor]:
    """x (..., K) quantized: packed elements (..., K / 2) to nearest even, saturating, and codes (..., K / 32).

    The scale is a quarter of a power of two: of the one above the block's largest magnitude where that is 1.75 times
    the one below or more ("even": Quark, vLLM), or more than 1.5 times that ("rceil": AITER's HIP kernel).
    """
    blocks = x.double().unflatten(-1, (-1, 32))
    amax = blocks.abs().amax(-1, keepdim=True)
    exponent = torch.floor(torch.log2(amax))
    mantissa = amax / torch.exp2(exponent)
    exponent += ((mantissa >= 1.75) if rounding == "even" else (mantissa > 1.5)).double() - 2
    magnitude = (blocks / torch.exp2(exponent)).abs().clamp(max=6)
    step = torch.where(magnitude < 2, 0.5, torch.where(magnitude < 4, 1.0, 2.0)).double()
    rounded = (magnitude / step).round() * step
    code = torch.searchsorted(torch.tensor(E2M1, dtype=torch.float64), rounded) + 8 * (blocks < 0)
    code = code.to(torch.uint8).flatten(-2)
    return code[..., 0::2] | code[..., 1::2] << 4, (exponent.squeeze(-1) + 127).to(torch.uint8)


def block_scaled(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, block_n: int, block_k: int
) -> torch.Tensor:
    """(M, N) of a (M, K) with a scale per row and block_k columns, and b (N, K) with one per (block_n, block_k)."""
    n, k = torch.arange(b.shape[0]) // block_n, torch.arange(b.shape[1]) // block_k
    return (a.double() * a_scale.double()[:, k]) @ (b.double() * b_scale.double()[n][:, k]).T


def moe(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor,
    w13_bias: torch.Tensor, w2_bias: torch.Tensor, activation: str,
) -> torch.Tensor:  # fmt: skip
    """(M, H) of x (M, H); w13 (E, 2 I, H) and w2 (E, H, I) are dequantized. swigluoai has gates and ups in turns."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token, row in enumerate(x.double()):
        for weight, expert in zip(topk_weights[token].double(), topk_ids[token].tolist(), strict=True):
            columns = w13[expert] @ row + w13_bias[expert].double()
            if activation == "swigluoai":
                gate, up = columns[0::2].clamp(max=7), columns[1::2].clamp(-7, 7) + 1
                inner = gate * torch.sigmoid(1.702 * gate) * up
            else:
                gate, up = columns.chunk(2)
                inner = gate * torch.sigmoid(gate) * up
            out[token] += weight * (w2[expert] @ inner + w2_bias[expert].double())
    return out


def verdict(got: torch.Tensor, want: torch.Tensor, bound: float, dtype: torch.dtype = torch.bfloat16) -> str:
    """`ok`, or what is wrong with an answer: its shape, its dtype, NaN, or its distance from float64's."""
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if got.dtype != dtype:
        return f"{got.dtype}, expected {dtype}"
    if not bool(got.isfinite().all()):
        return f"{int((~got.isfinite()).sum())} of {got.numel()} elements are no finite numbers"
    error = (torch.linalg.vector_norm(got.double() - want) / torch.linalg.vector_norm(want)).item()
    return "ok" if error < bound else f"relative error {error:.3g}, expected less than {bound:g}"
