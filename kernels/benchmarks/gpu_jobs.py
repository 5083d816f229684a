"""The jobs of the GPU benchmark: shapes, inputs, the fp32 answer, and what the work is in operations and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from blockscale.formats import mx
from blockscale.kernels.fp8_block_gemm import dequantized_mm
from blockscale.kernels.swiglu import SWIGLU_OAI

Inputs = tuple[Any, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """`shapes` are (M, N, K). `make(M, N, K)` gives one input set, `answer` what its product is in fp32."""

    name: str
    shapes: tuple[Shape, ...]
    make: Callable[..., Inputs]
    answer: Callable[..., torch.Tensor]
    peak: str  # the matrix unit that bounds it: fp8 or bf16
    tolerance: float
    sizes: str = "M x N x K"

    def again(self, first: Inputs, shape: Shape) -> Inputs:
        """Another input set."""
        return self.make(*shape)

    def bytes(self, inputs: Inputs, shape: Shape) -> int:
        """The fewest that must move: each input read once, C written once in bf16."""
        return sum(tensor.nbytes for tensor in inputs) + 2 * shape[0] * shape[1]

    def operations(self, shape: Shape) -> float:
        return 2.0 * shape[0] * shape[1] * shape[2]


class MoEJob(Job):
    """`shapes` are (M, E, k, H, I)."""

    def again(self, first: Inputs, shape: Shape) -> Inputs:
        """Other tokens for the same weights, which are too many for several sets: tokens pick other experts of them."""
        return _tokens(*shape[:4]) + first[3:]

    def bytes(self, inputs: Inputs, shape: Shape) -> int:
        """The weights of experts that have tokens, read once; tokens read and written."""
        x, logits, top_k, *weights = inputs
        touched = logits.topk(top_k).indices.unique().numel() / shape[1]
        return int(sum(weight.nbytes for weight in weights) * touched) + 2 * x.nbytes + logits.nbytes

    def operations(self, shape: Shape) -> float:
        tokens, _, top_k, hidden, intermediate = shape
        return 2.0 * tokens * top_k * 3 * hidden * intermediate


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


def _tokens(tokens: int, experts: int, top_k: int, hidden: int) -> Inputs:
    """x (M, H) bf16, logits (M, E) fp32, of which hardly two are equal, and how many experts a token gets."""
    x = torch.randn(tokens, hidden, device="cuda").bfloat16()
    return x, torch.randn(tokens, experts, device="cuda"), top_k


def _moe_inputs(tokens: int, experts: int, top_k: int, hidden: int, intermediate: int) -> Inputs:
    """`_tokens`, and weights (E, 2 I, H) and (E, H, I), each packed e2m1 with e8m0 scales of moderate size."""

    def weights(rows: int, columns: int, low: int) -> Inputs:
        codes = torch.randint(0, 256, (experts, rows, columns // 2), dtype=torch.uint8, device="cuda")
        scale = torch.randint(low, low + 4, (experts, rows, columns // 32), dtype=torch.uint8, device="cuda")
        return codes, scale

    given = _tokens(tokens, experts, top_k, hidden)
    return given + weights(2 * intermediate, hidden, 119) + weights(hidden, intermediate, 118)


def _moe_answer(
    x: torch.Tensor, logits: torch.Tensor, top_k: int,
    w13: torch.Tensor, w13_scale: torch.Tensor, w2: torch.Tensor, w2_scale: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Expert by expert in fp32, of the softmax over the chosen ones."""
    best, ids = logits.topk(top_k)
    shares = best.softmax(-1)
    out = torch.zeros(x.shape, device=x.device)
    for expert in ids.unique().tolist():
        token, slot = (ids == expert).nonzero(as_tuple=True)
        columns = x[token].float() @ mx.dequantize(w13[expert], w13_scale[expert], torch.float32).T
        inner = SWIGLU_OAI(*SWIGLU_OAI.gate_and_up(columns))
        rows = inner @ mx.dequantize(w2[expert], w2_scale[expert], torch.float32).T
        out.index_add_(0, token, rows * shares[token, slot, None])
    return out


JOBS = {
    "k1": Job(
        "FP8 GEMM, scales per 1 x 128 and 128 x 128",
        (
            (1, 7168, 16384), (16, 7168, 18432), (64, 2112, 7168), (128, 24576, 1536), (128, 7168, 16384),
            (1024, 18432, 7168), (4096, 2112, 7168), (4096, 24576, 1536), (4096, 7168, 16384), (8192, 8192, 8192),
        ),
        _fp8_inputs, _fp8_answer, "fp8", 1e-2,
    ),
    "k2": MoEJob(
        "MXFP4 MoE: bf16 tokens, SwiGLU, from the router's logits to the weighted sum",
        tuple(
            (tokens, *model)
            for model in ((128, 4, 2880, 2880), (32, 4, 2880, 2880), (64, 8, 4096, 2048))
            for tokens in (1, 16, 128, 1024, 4096)
        ),
        _moe_inputs, _moe_answer, "bf16", 2e-2, "M x E x k x H x I",
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
