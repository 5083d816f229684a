"""Calls of each launcher with tensors on another card than the current one, for test_second_device.py, in disguise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from blockscale.kernels import ocp_mx_linear
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.kernels.mxfp4_moe import mxfp4_moe

SECOND = "cuda:1"


def codes(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8, device=SECOND)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, device=SECOND)


def fp8_gemm(k: int) -> None:
    a, b = (codes(rows, k).view(torch.float8_e4m3fn) for rows in (8, 128))
    w8a8_triton_block_scaled_mm(a, b, ones(8, 2), ones(1, 2), [128, 128])


def mx_linear() -> None:
    """Within the operator: of a faked tensor torch asks the operator's fake alone."""
    ocp_mx_linear._triton(ones(8, 256).bfloat16(), codes(64, 128), codes(64, 8), torch.bfloat16, None)


def moe(fused: bool) -> None:
    ids = torch.zeros(8, 2, dtype=torch.int64, device=SECOND)
    weights = codes(4, 128, 128), codes(4, 128, 8), codes(4, 256, 32), codes(4, 256, 2)
    mxfp4_moe(ones(8, 256).bfloat16(), ones(8, 2), ids, *weights, fused=fused)


CALLS: dict[str, Callable[[], Any]] = {
    "fp8 gemm": lambda: fp8_gemm(256),
    "fp8 gemm, portable": lambda: fp8_gemm(250),
    "quantization": lambda: per_token_group_quant_fp8(ones(8, 256), 128),
    "mx linear": mx_linear,
    "moe": lambda: moe(fused=True),
    "moe, not fused": lambda: moe(fused=False),
}


def launched_on(name: str) -> list[int]:
    """The current device at each launch of a call, and after all of them."""
    from triton.runtime.jit import JITFunction

    seen = []
    JITFunction.run = lambda *args, **options: seen.append(torch.cuda.current_device())
    CALLS[name]()
    return [*seen, torch.cuda.current_device()]
