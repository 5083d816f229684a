"""DeepGEMM's fp8_gemm_nt."""

from __future__ import annotations

from blockscale import envs
from blockscale.kernels import deep_gemm
from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend
from blockscale.oracle.fp8_block_gemm.conditions import BLOCKS_OF_128, FP32_SCALES, WHOLE_BLOCKS
from blockscale.platforms.libraries import DEEP_GEMM

BACKEND = Fp8Backend(
    "DEEP_GEMM",
    order={"": 20},
    requires=(
        requirements.platform("cuda"),
        requirements.switched_on(envs.use_deep_gemm, "BLOCKSCALE_USE_DEEP_GEMM=0"),
        requirements.library(DEEP_GEMM),
        BLOCKS_OF_128,
        WHOLE_BLOCKS,
        FP32_SCALES,
    ),
    run=deep_gemm.fp8_gemm,
)
