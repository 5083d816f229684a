"""The CPU paths beside torch's own bf16 matmul on weights dequantized before: ratios, measured in one run.

Run: python kernels/benchmarks/cpu_ratio.py [--threads N] [--busy]. A ratio of 0.5 means half of the matmul's speed.
`--busy` counts CPU time, for a machine that others use too; with one thread, for threads wait by spinning.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from blockscale.formats import mx
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant

ROUNDS = 15


def seconds(*calls: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """The least time of each call over rounds that take turns, so that all see the same machine."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            start = clock()
            call()
            best[index] = min(best[index], clock() - start)
    return best


def fp8_block_gemm(m: int, n: int, k: int) -> tuple[Callable[[], object], Callable[[], object]]:
    a, b = (torch.randn(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    a_scale, b_scale = torch.rand(m, k // 128), torch.rand(n // 128, k // 128)
    x, w = a.bfloat16(), b.bfloat16()
    return lambda: w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16), lambda: x @ w.T


def ocp_mx_linear(m: int, n: int, k: int) -> tuple[Callable[[], object], Callable[[], object]]:
    x, (weight, scale) = torch.randn(m, k).bfloat16(), mx.quantize(torch.randn(n, k))
    w = mx.dequantize(weight, scale, torch.bfloat16)
    return lambda: gemm_with_dynamic_quant(x, weight, scale), lambda: x @ w.T


def moe(m: int, intermediate: int, hidden: int, experts: int = 8, top_k: int = 4) -> tuple[Callable, Callable]:
    w13, w13_scale = mx.quantize(torch.randn(experts, 2 * intermediate, hidden))
    w2, w2_scale = mx.quantize(torch.randn(experts, hidden, intermediate))
    x, topk_weights = torch.randn(m, hidden).bfloat16(), torch.rand(m, top_k)
    topk_ids = torch.stack([torch.randperm(experts)[:top_k] for _ in range(m)])
    plain = mx.dequantize(w13, w13_scale, torch.bfloat16), mx.dequantize(w2, w2_scale, torch.bfloat16)
    given = [torch.randn(m, columns).bfloat16() for columns in (hidden, intermediate)]
    rows = topk_ids.flatten().bincount().tolist()

    def matmuls() -> None:
        for expert, count in enumerate(rows):
            for inputs, weight in zip(given, plain, strict=True):
                if count:
                    inputs[:count] @ weight[expert].T

    return lambda: mxfp4_moe(x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale), matmuls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    clock = time.process_time if asked.busy else time.perf_counter
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'kernel':16} {'tokens':>6} {'ms':>9} {'matmul ms':>10} {'ratio':>6}")
    for name, make, size in (
        ("fp8_block_gemm", fp8_block_gemm, (2048, 2048)),
        ("ocp_mx_linear", ocp_mx_linear, (2048, 2048)),
        ("mxfp4_moe", moe, (512, 1024)),
    ):
        for tokens in (1, 16, 128, 512, 2048):
            ours, matmul = seconds(*make(tokens, *size), clock=clock)
            print(f"{name:16} {tokens:6} {ours * 1e3:9.2f} {matmul * 1e3:10.2f} {matmul / ours:6.2f}")


if __name__ == "__main__":
    main()
