"""Small tensors that the checks are made on; the same in every run."""

from __future__ import annotations

from typing import Any

import torch


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def expert_weights(experts: int, intermediate: int, hidden: int) -> dict[str, torch.Tensor]:
    """MXFP4 weights of a MoE layer as a checkpoint has them, with biases; outputs of each layer are near 1."""
    generator = _generator()
    out: dict[str, torch.Tensor] = {}
    for name, rows, columns in (("w13", 2 * intermediate, hidden), ("w2", hidden, intermediate)):
        packed = torch.randint(0, 256, (experts, rows, columns // 2), generator=generator)
        codes = torch.randint(119, 123, (experts, rows, columns // 32), generator=generator)
        out |= {name: packed.to(torch.uint8), f"{name}_scale": codes.to(torch.uint8)}
        out[f"{name}_bias"] = torch.randn(experts, rows, generator=generator).bfloat16()
    return out


def tokens(count: int, hidden: int, experts: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x (count, hidden) bf16, and two experts for each token with their weights; the first token is felt by a limit."""
    generator = _generator(1)
    ids = torch.stack([torch.randperm(experts, generator=generator)[:2] for _ in range(count)])
    x = torch.randn(count, hidden, generator=generator).bfloat16()
    x[0] *= 16
    return x, torch.rand(count, 2, generator=generator), ids


def fp8_gemm(scales: str = "float32", output: str = "bfloat16") -> dict[str, Any]:
    """Arguments of w8a8_triton_block_scaled_mm, M = 3, N = 130, K = 300: neither N nor K is whole blocks.

    Scales differ by powers of two from block to block, so that a wrong one shows.
    """
    generator = _generator(2)
    dtype = getattr(torch, scales)
    return {
        "A": torch.randn(3, 300, generator=generator).to(torch.float8_e4m3fn),
        "B": torch.randn(130, 300, generator=generator).to(torch.float8_e4m3fn),
        "As": torch.exp2(torch.randint(-6, 7, (3, 3), generator=generator).float()).to(dtype),
        "Bs": torch.exp2(torch.randint(-6, 7, (2, 3), generator=generator).float()).to(dtype),
        "block_size": [128, 128],
        "output_dtype": getattr(torch, output),
    }


def ocp_mx_gemm(aiter: bool = False) -> dict[str, Any]:
    """Arguments of gemm_with_dynamic_quant, M = 5, N = 32, K = 256; with `aiter` it asks for AITER's kernel."""
    generator = _generator(3)
    weight = torch.randint(0, 256, (32, 128), generator=generator).to(torch.uint8)
    scale = torch.randint(119, 123, (32, 8), generator=generator).to(torch.uint8)
    x = torch.randn(5, 256, generator=generator).bfloat16()
    return {
        "x": x,
        "weight": weight,
        "weight_scale": scale,
        "rocm_use_aiter_fp4_asm_gemm": aiter,
        "out_dtype": torch.bfloat16,
    }
