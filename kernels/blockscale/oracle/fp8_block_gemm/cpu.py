"""blockscale's CPU path: torch's bf16 matmul on dequantized weights."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[Fp8BlockGemmProblem] = Backend("CPU", order={"": 40}, requires=(requirements.platform("cpu"),))
