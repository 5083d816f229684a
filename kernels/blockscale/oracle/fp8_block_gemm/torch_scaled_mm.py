"""torch's scaled_mm: cuBLASLt's product with block scales, which it has on Hopper alone, from CUDA 12.9 on.

After Triton's kernel, as in vLLM, whose order ends with it: it needs nothing but torch.
"""

from __future__ import annotations

from blockscale.kernels import torch_scaled_mm
from blockscale.layouts import cublas
from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend
from blockscale.oracle.fp8_block_gemm.conditions import BLOCKS_OF_128, FP32_SCALES

BACKEND = Fp8Backend(
    "TORCH_SCALED_MM",
    order={"": 35},
    requires=(
        requirements.platform("cuda"),
        requirements.arch("sm_90"),
        requirements.cuda_build(12, 9),
        BLOCKS_OF_128,
        requirements.holds(
            lambda p: p.n % 16 == 0 and p.k % 128 == 0, "It needs N in 16s and K in 128s, and they are {n} and {k}."
        ),
        FP32_SCALES,
    ),
    run=torch_scaled_mm.fp8_block_gemm,
    convert=lambda weight, scale, block_size: (weight, cublas.block_scale(scale)),
)
