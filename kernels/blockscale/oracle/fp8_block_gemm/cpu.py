"""blockscale's CPU path: torch's bf16 matmul on dequantized weights."""

from __future__ import annotations

from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend

BACKEND = Fp8Backend("CPU", order={"": 40}, requires=(requirements.platform("cpu"),))
