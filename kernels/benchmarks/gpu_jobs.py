"""The jobs of the GPU benchmark: shapes, inputs, the fp32 answer, and what the work is in operations and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from blockscale.formats import mx
from blockscale.kernels.fp8_block_gemm import dequantized_mm

Inputs = tuple[torch.Tensor, ...]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Job:
    """`shapes` are (M, N, K). `make(M, N, K)` gives one input set, `answer` what its product is in fp32."""

    name: str
    shapes: tuple[Shape, ...]
    make: Callable[[int, int, int], Inputs]
    answer: Callable[..., torch.Tensor]
    peak: str  # the matrix unit that bounds it: fp8 or bf16
    tolerance: float

    def bytes(self, inputs: Inputs, shape: Shape) -> int:
        """The fewest that must move: each input read once, C written once in bf16."""
        return sum(tensor.nbytes for tensor in inputs) + 2 * shape[0] * shape[1]


def _fp8_inputs(m: int, n: int, k: int) -> Inputs:
    """A (M, K) and B (N, K) e4m3fn, scales (M, K / 128) and (ceil(N / 128), K / 128) fp32."""
    a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
    a_scale = torch.rand(m, -(-k // 128), device="cuda") + 0.5
    b_scale = torch.rand(-(-n // 128), -(-k // 128), device="cuda") + 0.5
    return a, b, a_scale, b_scale


def _fp8_answer(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> torch.Tensor:
    return dequantized_mm(a, b, a_scale, b_scale, 128, 128, torch.float32)


def _mxfp4_inputs(m: int, n: int, k: int) -> Inputs:
    """x (M, K) bf16, weights (N, K / 2) packed e2m1 and (N, K / 32) e8m0 codes of moderate size."""
    x = torch.randn(m, k, device="cuda").bfloat16()
    weight = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
    return x, weight, torch.randint(120, 130, (n, k // 32), dtype=torch.uint8, device="cuda")


def _mxfp4_answer(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rounded = mx.dequantize(*mx.quantize(x), torch.float32)
    return rounded @ mx.dequantize(weight, scale, torch.float32).T


JOBS = {
    "k1": Job(
        "FP8 GEMM, scales per 1 x 128 and 128 x 128",
        (
            (1, 7168, 16384), (16, 7168, 18432), (64, 2112, 7168), (128, 24576, 1536), (128, 7168, 16384),
            (1024, 18432, 7168), (4096, 2112, 7168), (4096, 24576, 1536), (4096, 7168, 16384), (8192, 8192, 8192),
        ),
        _fp8_inputs, _fp8_answer, "fp8", 1e-2,
    ),
    "k3": Job(
        "OCP-MX linear: bf16 quantized to MXFP4, times MXFP4 weights",
        tuple((m, n, 8192) for n in (8192, 28672) for m in (1, 16, 128, 4096)),
        _mxfp4_inputs, _mxfp4_answer, "bf16", 1e-2,
    ),
}  # fmt: skip

# What a card can do at most, in FLOP/s and B/s. H200: NVIDIA H200 data sheet (dense), HBM as measured by a copy.
ROOFLINES: dict[str, dict[str, Any]] = {
    "NVIDIA H200": {"fp8": 1979e12, "bf16": 989e12, "bandwidth": 4.3e12},
}
