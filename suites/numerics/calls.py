"""Each kernel called at sizes that take each of its ways: the tests of what holds for all of them go through these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.mxfp4_moe import mxfp4_moe, mxfp4_moe_from_logits
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI

from .references import fp8_operands, moe_operands, mx_operands
from .ways import Way


@dataclass(frozen=True)
class Call:
    """A kernel, and operands for it by name: those in `per_token` have a row for each token."""

    run: Callable[..., Any]
    operands: Callable[[Way, int], dict[str, torch.Tensor]]  # for a seed, on the CPU
    per_token: tuple[str, ...]

    def given(self, way: Way, seed: int = 0) -> dict[str, torch.Tensor]:
        return way.put(self.operands(way, seed))

    def __call__(self, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """What the kernel gives, as a tuple, whatever it gives."""
        out = self.run(**given)
        return out if isinstance(out, tuple) else (out,)


def same_bits(left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]) -> bool:
    """Equal byte for byte, NaN among them."""
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in pairs)


def _quantization(m: int, k: int, scale_dtype: torch.dtype) -> Call:
    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        return {"x": mx_operands(m, 1, k, seed)[0]}

    return Call(lambda x: per_token_group_quant_fp8(x, 128, scale_dtype=scale_dtype), operands, ("x",))


def _fp8_gemm(m: int, n: int, k: int, scales: torch.dtype = torch.float32) -> Call:
    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        given = fp8_operands(m, n, k, dtype=way.fp8, scales=scales, seed=seed)
        return dict(zip(("A", "B", "As", "Bs"), given, strict=True))

    def run(A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        return w8a8_triton_block_scaled_mm(A, B, As, Bs, [128, 128], torch.bfloat16)

    return Call(run, operands, ("A", "As"))


def _mx_linear(m: int, n: int, k: int) -> Call:
    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        return dict(zip(("x", "weight", "weight_scale"), mx_operands(m, n, k, seed), strict=True))

    return Call(gemm_with_dynamic_quant, operands, ("x",))


def _moe(tokens: int, **options: Any) -> Call:
    bias = options.get("activation", SWIGLU_OAI) is SWIGLU_OAI

    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        return moe_operands(tokens, experts=8, top_k=2, hidden=288, intermediate=160, seed=seed, bias=bias)

    return Call(lambda **given: mxfp4_moe(**given, **options), operands, ("x", "topk_weights", "topk_ids"))


def _router(tokens: int, **options: Any) -> Call:
    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        return {"logits": torch.randn(tokens, 96, generator=torch.Generator().manual_seed(seed))}

    return Call(lambda logits: route(logits, Router(4, **options)), operands, ("logits",))


def _moe_from_logits(tokens: int) -> Call:
    def operands(way: Way, seed: int) -> dict[str, torch.Tensor]:
        call = moe_operands(tokens, experts=8, top_k=2, hidden=288, intermediate=160, seed=seed, bias=True)
        logits = torch.randn(tokens, 8, generator=torch.Generator().manual_seed(seed))
        return {"logits": logits} | {name: tensor for name, tensor in call.items() if not name.startswith("topk")}

    return Call(lambda **given: mxfp4_moe_from_logits(**given, router=Router(2)), operands, ("x", "logits"))


E8M0 = torch.float8_e8m0fnu

CALLS = {
    "quantization": _quantization(33, 1000, torch.float32),
    "quantization, e8m0": _quantization(33, 1000, E8M0),
    # K in 16s goes to Hopper's own kernel there: one configuration for each of these numbers of rows.
    **{f"fp8 gemm, {m} rows": _fp8_gemm(m, 384, 1040) for m in (1, 16, 50, 100, 300)},
    **{f"fp8 gemm, portable, {m} rows": _fp8_gemm(m, 200, 1001, E8M0) for m in (7, 50, 200)},
    **{f"mx linear, {m} rows": _mx_linear(m, 520, 1056) for m in (7, 50, 200, 300)},
    **{f"moe, {tokens} tokens": _moe(tokens) for tokens in (3, 200, 300)},
    "router": _router(130),
    "router, sigmoids": _router(3, scores="sigmoid"),
    **{f"moe from logits, {tokens} tokens": _moe_from_logits(tokens) for tokens in (3, 200)},
    "moe, silu": _moe(40, activation=SILU),
    "moe, not fused": _moe(40, fused=False),
    **{f"moe, {name} activations": _moe(40, activation_format=name) for name in ("mxfp8", "mxfp4", "fp8")},
}

EVERY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
