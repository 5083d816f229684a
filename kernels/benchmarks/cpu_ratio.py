"""The CPU paths beside torch's own bf16 matmul on weights dequantized before: ratios, measured in one run.

Run: python kernels/benchmarks/cpu_ratio.py [--threads N] [--rounds N] [--busy]. A ratio of 0.5 means half of the
matmul's speed: of weights as a checkpoint has them, widened at each call, and of weights that `layouts.cpu` widened
once, which is what the layers do on a CPU. In a round each call is timed once, so that all see the same machine; times
and ratios are medians over the rounds. `--busy` counts CPU time, for a machine that others use too; with one thread,
for threads wait by spinning.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from blockscale.formats import mx
from blockscale.kernels.fp8_block_gemm import prepared_mm, w8a8_triton_block_scaled_mm
from blockscale.kernels.mxfp4_moe import mxfp4_moe, prepared_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant, prepared_gemm
from blockscale.layouts import cpu

TOKENS = (1, 4, 16, 128, 512, 2048)
Call = Callable[[], object]


class Kernel(NamedTuple):
    """One kernel at one size; `calls` makes, for so many tokens, its call as loaded, prepared, and the matmul."""

    name: str
    loaded: tuple[torch.Tensor, ...]
    prepare: Callable[[], tuple[torch.Tensor, ...]]
    calls: Callable[[int, tuple[torch.Tensor, ...]], tuple[Call, Call, Call]]


def fp8_block_gemm(n: int, k: int) -> Kernel:
    b, b_scale = torch.randn(n, k).to(torch.float8_e4m3fn), torch.rand(n // 128, k // 128)

    def calls(m: int, prepared: tuple[torch.Tensor, ...]) -> tuple[Call, Call, Call]:
        a, a_scale = torch.randn(m, k).to(torch.float8_e4m3fn), torch.rand(m, k // 128)
        x, w = a.bfloat16(), prepared[0].clone()
        return (
            lambda: w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16),
            lambda: prepared_mm(a, prepared[0], a_scale, 128),
            lambda: x @ w.T,
        )

    return Kernel(f"fp8_block_gemm {n} x {k}", (b, b_scale), lambda: (cpu.fp8_weight(b, b_scale, 128, 128),), calls)


def ocp_mx_linear(n: int, k: int) -> Kernel:
    weight, scale = mx.quantize(torch.randn(n, k))

    def calls(m: int, prepared: tuple[torch.Tensor, ...]) -> tuple[Call, Call, Call]:
        x, w = torch.randn(m, k).bfloat16(), prepared[0].clone()
        return (
            lambda: gemm_with_dynamic_quant(x, weight, scale),
            lambda: prepared_gemm(x, prepared[0]),
            lambda: x @ w.T,
        )

    return Kernel(f"ocp_mx_linear {n} x {k}", (weight, scale), lambda: (cpu.mxfp4_weight(weight, scale),), calls)


def moe(intermediate: int, hidden: int, experts: int = 8, top_k: int = 4) -> Kernel:
    w13, w13_scale = mx.quantize(torch.randn(experts, 2 * intermediate, hidden))
    w2, w2_scale = mx.quantize(torch.randn(experts, hidden, intermediate))

    def prepare() -> tuple[torch.Tensor, ...]:
        return cpu.mxfp4_w13(w13, w13_scale, interleaved=True), cpu.mxfp4_weight(w2, w2_scale)

    def calls(m: int, prepared: tuple[torch.Tensor, ...]) -> tuple[Call, Call, Call]:
        x, topk_weights = torch.randn(m, hidden).bfloat16(), torch.rand(m, top_k)
        topk_ids = torch.stack([torch.randperm(experts)[:top_k] for _ in range(m)])
        rows, plain = topk_ids.flatten().bincount().tolist(), [weight.clone() for weight in prepared]
        given = [torch.randn(max(rows), columns).bfloat16() for columns in (hidden, intermediate)]

        def matmuls() -> None:
            for expert, count in enumerate(rows):
                for inputs, weight in zip(given, plain, strict=True):
                    if count:
                        inputs[:count] @ weight[expert].T

        return (
            lambda: mxfp4_moe(x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale),
            lambda: prepared_moe(x, topk_weights, topk_ids, *prepared),
            matmuls,
        )

    name = f"mxfp4_moe {experts} experts, {top_k} each, {intermediate} x {hidden}"
    return Kernel(name, (w13, w13_scale, w2, w2_scale), prepare, calls)


def rounds(calls: tuple[Call, ...], count: int, clock: Callable[[], float]) -> list[list[float]]:
    """Seconds of each call in each round, after one that does not count."""
    taken: list[list[float]] = [[] for _ in calls]
    for number in range(count + 1):
        for call, times in zip(calls, taken, strict=True):
            start = clock()
            call()
            if number:
                times.append(clock() - start)
    return taken


def ratio(times: list[float], matmul: list[float]) -> float:
    """The matmul's speed that these have, as a median over rounds."""
    return statistics.median(theirs / ours for ours, theirs in zip(times, matmul, strict=True))


def mebibytes(tensors: tuple[torch.Tensor, ...]) -> float:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    clock = time.process_time if asked.busy else time.perf_counter
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for kernel in (fp8_block_gemm(2048, 2048), ocp_mx_linear(2048, 2048), moe(512, 1024)):
        start = clock()
        prepared = kernel.prepare()
        took = clock() - start
        memory = f"{mebibytes(kernel.loaded):.1f} MiB as loaded, {mebibytes(prepared):.1f} MiB prepared"
        print(f"\n{kernel.name}: {memory} in {took * 1e3:.1f} ms\n")
        print(f"{'tokens':>6} {'matmul ms':>10} {'as loaded':>10} {'prepared':>10} {'as loaded':>10} {'prepared':>10}")
        for tokens in TOKENS:
            loaded, ours, matmul = rounds(kernel.calls(tokens, prepared), asked.rounds, clock)
            times = " ".join(f"{statistics.median(each) * 1e3:10.2f}" for each in (matmul, loaded, ours))
            print(f"{tokens:6} {times} {ratio(loaded, matmul):9.2f}x {ratio(ours, matmul):9.2f}x", flush=True)


if __name__ == "__main__":
    main()
