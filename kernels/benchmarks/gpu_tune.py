"""Times configurations on the card at hand: what the files in blockscale/kernels/configs are made from.

Run: python kernels/benchmarks/gpu_tune.py --job k1|k2|k3 --shape M,N,K... --try '{"swap": true, ...}'...
It prints a line for each, the fastest first.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch
from gpu import check_shapes, relative_error, shape_of
from gpu_jobs import JOBS, Shape
from gpu_peers import Call
from gpu_timing import Timed, sets_needed, side_by_side

from blockscale.kernels import moe_router
from blockscale.kernels.moe_router import Logits, Router
from blockscale.kernels.ocp_mx_linear import triton_gemm
from blockscale.kernels.swiglu import SWIGLU_OAI
from blockscale.kernels.triton import fp8_block_gemm_hopper_launch as hopper
from blockscale.kernels.triton import mxfp4_moe_hopper_launch as moe


def _k1(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, config: dict[str, Any]) -> Call:
    return lambda: hopper.fp8_block_gemm(a, b, a_scale, b_scale, 128, 128, torch.bfloat16, config)


def _k3(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, config: dict[str, Any]) -> Call:
    return lambda: triton_gemm(x, weight, scale, torch.bfloat16, None, False, config)


def _k2(x: torch.Tensor, logits: torch.Tensor, top_k: int, *rest: Any) -> Call:
    *weights, config = rest
    more = None, None, SWIGLU_OAI, None, weights[2].shape[2] * 2, config, Logits(logits, Router(top_k), None)
    return lambda: moe.mxfp4_moe(x, *moe_router.empty(logits, Router(top_k)), *weights, *more)


_CALLS = {"k1": _k1, "k2": _k2, "k3": _k3}


def times(job_name: str, shape: Shape, candidates: list[dict[str, Any]]) -> dict[str, float | str]:
    """Microseconds of each candidate, by its JSON; or why it has none."""
    job = JOBS[job_name]
    first = job.make(*shape)
    sets = [first, *(job.again(first, shape) for _ in range(sets_needed(job.bytes(first, shape)) - 1))]
    answer = job.answer(*first)
    timed: dict[str, Timed] = {}
    found: dict[str, float | str] = {}
    for config in candidates:
        name = json.dumps(config)
        try:
            candidate = Timed([_CALLS[job_name](*inputs, config) for inputs in sets])
            candidate.microseconds()
            error = relative_error(candidate.outputs[0], answer)
            if error < job.tolerance:
                timed[name] = candidate
            else:
                found[name] = f"wrong: relative error {error:.1e}"
        except Exception as why:  # out of shared memory, say: the next one may fit
            found[name] = f"{type(why).__name__}: {str(why)[:100]}"
    return found | side_by_side(timed, 3, 0.05)


def _by_time(item: tuple[str, float | str]) -> float:
    return item[1] if isinstance(item[1], float) else float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=_CALLS, default="k1")
    parser.add_argument("--shape", type=shape_of, action="append", required=True)
    parser.add_argument("--try", dest="configs", type=json.loads, action="append", required=True)
    arguments = parser.parse_args()
    check_shapes(parser, arguments.job, arguments.shape)
    if not torch.cuda.is_available():
        print(f"gpu_tune.py: torch {torch.__version__} sees no GPU here, and tuning takes one.", file=sys.stderr)
        return 2
    for shape in arguments.shape:
        for name, time in sorted(times(arguments.job, shape, arguments.configs).items(), key=_by_time):
            print(shape, f"{time:9.2f}" if isinstance(time, float) else time, name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
