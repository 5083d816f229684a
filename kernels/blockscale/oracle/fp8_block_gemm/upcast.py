"""The fp32 product of dequantized operands: gfx1250's path, whose native FP8 block GEMM gives NaN."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[Fp8BlockGemmProblem] = Backend(
    "UPCAST", order={"": 10}, requires=(requirements.platform("rocm"), requirements.arch("gfx1250"))
)
