"""What several backends of the FP8 block GEMM require."""

from __future__ import annotations

from blockscale.oracle import requirements

BLOCKS_OF_128 = requirements.holds(
    lambda p: (p.block_n, p.block_k) == (128, 128), "It takes blocks of 128 x 128, and these are {block_n} x {block_k}."
)
WHOLE_BLOCKS = requirements.holds(
    lambda p: p.n % 64 == 0 and p.k % 128 == 0, "It needs N in 64s and K in 128s, and they are {n} and {k}."
)
FP32_SCALES = requirements.holds(lambda p: not p.e8m0_scales, "It is called with fp32 scales, and these are e8m0.")
