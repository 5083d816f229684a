"""AITER's layouts, for gfx942 and gfx950 (checked against amd-aiter 0.1.7), and the same of others that share them."""

from __future__ import annotations

import torch

from blockscale.layouts.gate_up import halves_to_turns, turns_to_halves
from blockscale.layouts.tiling import Tiling

WEIGHT = Tiling("AITER's shuffle_weight (16, 16)", rows=(16,), columns=(2, 16), order=(0, 2, 3, 1, 4))
"""Bytes: 16 rows by 32 bytes make a tile, of two halves of 16 bytes."""

MOE_WEIGHT = Tiling("AITER's MoE weight", rows=(16,), columns=(4, 16), order=(0, 2, 3, 1, 4))
"""Packed MXFP4 bytes of the kernels with bf16 activations: 16 rows by 64 bytes."""

SCALE = Tiling(
    "AITER's e8m0_shuffle", rows=(2, 16), columns=(2, 4), order=(0, 3, 5, 2, 4, 1), pad_rows=256, pad_columns=8
)
"""e8m0 scales; triton_kernels' CDNA4 scale swizzle is the same. AITER leaves the padding as it was; here it is zero."""

CDNA4_SCALE = SCALE


def shuffle_w13(w13: torch.Tensor) -> torch.Tensor:
    """(E, 2 I, H / 2) packed, gates before ups, to the MoE layout with gates and ups in turns of 16 rows."""
    return MOE_WEIGHT.shuffle(halves_to_turns(w13))


def unshuffle_w13(shuffled: torch.Tensor) -> torch.Tensor:
    """The inverse of `shuffle_w13`."""
    return turns_to_halves(MOE_WEIGHT.unshuffle(shuffled, *shuffled.shape[-2:]))


def shuffle_w13_scale(scale: torch.Tensor) -> torch.Tensor:
    """(E, 2 I, H / 32) e8m0 codes, gates before ups, to the scale layout with gates and ups in turns of 16 rows."""
    return SCALE.shuffle(halves_to_turns(scale))


def unshuffle_w13_scale(shuffled: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The inverse of `shuffle_w13_scale`, for a plain scale of (rows, columns) per expert."""
    return turns_to_halves(SCALE.unshuffle(shuffled, rows, columns))
