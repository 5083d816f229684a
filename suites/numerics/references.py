"""Operands, and answers in float64 by code that shares nothing with the kernels: index arithmetic and loops."""

from __future__ import annotations

import torch

from blockscale.formats import mx
from blockscale.kernels.ocp_mx_linear import ROUNDING
from blockscale.kernels.swiglu import SWIGLU_OAI


def relative_error(got, want):
    """Of the whole tensor, by norms; on the CPU."""
    got, want = got.cpu().double(), want.cpu().double()
    return (torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want)).item()


def bound(dtype, path, fp8=False):
    """What rounding the answer once to `dtype` may cost, and the sums of the matrix unit that made it.

    A matrix unit cuts off where fp32 would round. In a product of fp8, Hopper's keeps 14 bits (DeepSeek-V3 technical
    report, arXiv:2412.19437, section 3.3.2).
    """
    if dtype == torch.float32:
        return 1e-6 if not path.on_device else 2e-3 if fp8 else 1e-5
    return {torch.bfloat16: 5e-3, torch.float16: 3e-3 if fp8 and path.on_device else 2e-3}[dtype]


def fp8_operands(m, n, k, block=(128, 128), dtype=torch.float8_e4m3fn, scales=torch.float32, seed=0):
    """Random operands whose scales differ by powers of two between blocks, so that a wrong scale shows."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(m, k, generator=generator).to(dtype)
    b = torch.randn(n, k, generator=generator).to(dtype)
    k_blocks, n_blocks = -(-k // block[1]), -(-n // block[0])
    a_scale = torch.exp2(torch.randint(-6, 7, (m, k_blocks), generator=generator).float())
    b_scale = torch.exp2(torch.randint(-6, 7, (n_blocks, k_blocks), generator=generator).float())
    return a, b, a_scale.to(scales), b_scale.to(scales)


def fp8_answer(a, b, a_scale, b_scale, block=(128, 128)):
    """(M, N) float64, where the operands are."""
    n, k = b.shape
    k_block = torch.arange(k, device=b.device) // block[1]
    n_block = torch.arange(n, device=b.device) // block[0]
    left = a.double() * a_scale.float().double()[:, k_block]
    right = b.double() * b_scale.float().double()[n_block][:, k_block]
    return left @ right.T


def mx_operands(m, n, k, seed=0):
    """Activations over many binades, and weights whose scales differ from block to block."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, k, generator=generator) * torch.exp2(2 * torch.randn(m, k, generator=generator))
    weight = torch.randint(0, 256, (n, k // 2), generator=generator).to(torch.uint8)
    scale = torch.randint(117, 133, (n, k // 32), generator=generator).to(torch.uint8)
    return x.bfloat16(), weight, scale


def mx_answer(x, weight, scale):
    """(M, N) float64 of activations that are quantized by the definition, where the operands are."""
    values = mx.dequantize(*mx.quantize(x, ROUNDING), torch.float64)
    return values @ mx.dequantize(weight, scale, torch.float64).T


def moe_operands(tokens=9, experts=5, top_k=2, hidden=64, intermediate=96, seed=0, bias=False):
    """Arguments of `mxfp4_moe`, with outputs of each layer near 1."""
    generator = torch.Generator().manual_seed(seed)

    def weights(*shape):
        codes = torch.randint(0, 256, (*shape[:-1], shape[-1] // 2), generator=generator).to(torch.uint8)
        scale = torch.randint(120, 124, (*shape[:-1], shape[-1] // 32), generator=generator).to(torch.uint8)
        return codes, scale

    w13, w13_scale = weights(experts, 2 * intermediate, hidden)
    w2, w2_scale = weights(experts, hidden, intermediate)
    call = {
        "x": torch.randn(tokens, hidden, generator=generator).bfloat16(),
        "topk_weights": torch.rand(tokens, top_k, generator=generator),
        "topk_ids": torch.stack([torch.randperm(experts, generator=generator)[:top_k] for _ in range(tokens)]).int(),
        "w13": w13, "w13_scale": w13_scale, "w2": w2, "w2_scale": w2_scale,
    }  # fmt: skip
    if bias:
        call["w13_bias"] = torch.randn(experts, 2 * intermediate, generator=generator).bfloat16()
        call["w2_bias"] = torch.randn(experts, hidden, generator=generator).bfloat16()
    return call


def moe_answer(x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, w13_bias=None, w2_bias=None,
               activation=SWIGLU_OAI, expert_map=None):  # fmt: skip
    """Token by token, slot by slot, by the formulas themselves, where the operands are."""
    up_projection = mx.dequantize(w13, w13_scale, torch.float64)
    down_projection = mx.dequantize(w2, w2_scale, torch.float64)
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for token, row in enumerate(x.double()):
        for weight, expert in zip(topk_weights[token].double(), topk_ids[token].tolist(), strict=True):
            expert = expert if expert_map is None else int(expert_map[expert])
            if expert < 0:
                continue
            columns = up_projection[expert] @ row
            if w13_bias is not None:
                columns += w13_bias[expert].double()
            if activation is SWIGLU_OAI:
                gate, up = columns[0::2].clamp(max=7), columns[1::2].clamp(-7, 7)
                inner = gate * torch.sigmoid(1.702 * gate) * (up + 1)
            else:
                gate, up = columns[: len(columns) // 2], columns[len(columns) // 2 :]
                inner = gate * torch.sigmoid(gate) * up
            y = down_projection[expert] @ inner
            out[token] += weight * (y if w2_bias is None else y + w2_bias[expert].double())
    return out
