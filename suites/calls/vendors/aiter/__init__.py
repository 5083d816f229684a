"""A stand-in of AITER with the parameters of amd-aiter 0.1.7's functions: it opens HIP when imported, as AITER does.

The numbers are those of float64 formulas, taken from AITER's layouts.
"""

from __future__ import annotations

import enum

import torch
from checks import layouts, reference

torch.cuda.current_device()


class ActivationType(enum.Enum):
    Silu = 0
    Swiglu = 2


class QuantType(enum.Enum):
    No = 0
    per_1x32 = 4


def per_1x32_f4_quant_hip(x, scale=None, quant_dtype=torch.uint8, shuffle=False):
    """x (M, K) to packed e2m1 and e8m0 codes, in AITER's layout with `shuffle`; it rounds scales up (RCEIL)."""
    packed, codes = reference.mxfp4_codes(x, "rceil")
    return packed, layouts.placed(codes[None], "e8m0")[0] if shuffle else codes


def gemm_a4w4(A, B, A_scale, B_scale, out, bias=None, alpha=1.0, beta=0.0, bpreshuffle=True):
    """out (M in whole tiles of 32, N) = A @ B.T for packed A (M, K / 2) and B (N, K / 2) with scales shuffled."""
    if out.shape[0] % 32:
        raise ValueError(f"out has {out.shape[0]} rows, and the kernel writes tiles of 32")
    M, blocks = A.shape[0], A.shape[1] // 16
    a_codes = layouts.taken(A_scale[None], "e8m0", M, blocks)[0]
    b_codes = layouts.taken(B_scale[None], "e8m0", B.shape[0], blocks)[0]
    b = layouts.taken(B[None], "weight (16, 16)", *B.shape)[0]
    out[:M] = reference.mxfp4(A, a_codes) @ reference.mxfp4(b, b_codes).T
    return out
