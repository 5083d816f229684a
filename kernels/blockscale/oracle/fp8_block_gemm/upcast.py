"""The fp32 product of dequantized operands: gfx1250's path, whose native FP8 block GEMM gives NaN."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend, dequantized

BACKEND = Fp8Backend(
    "UPCAST",
    order={"": 10},
    requires=(requirements.platform("rocm"), requirements.arch("gfx1250")),
    run=dequantized,
)
