"""blockscale's Triton kernel: any shape, any power-of-two K block from 32 on."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend

BACKEND = Fp8Backend(
    "TRITON",
    order={"": 30},
    requires=(
        requirements.platform("cuda", "rocm", "xpu"),
        requirements.not_arch("gfx1250", "On gfx1250 the native FP8 block GEMM gives NaN."),
        requirements.triton(),
        requirements.holds(
            lambda p: p.block_k % 32 == 0,
            "A matrix instruction takes 32 of K, which do not divide blocks of {block_k}.",
        ),
    ),
)
