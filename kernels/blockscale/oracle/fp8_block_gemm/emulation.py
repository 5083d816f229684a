"""The fp32 product of dequantized operands, on whichever device."""

from __future__ import annotations

from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[Fp8BlockGemmProblem] = Backend("EMULATION", order={"": 50}, requires=())
