"""gfx1250's two scale layouts. They are not each other's: AITER's kernels read one, triton_kernels' the other."""

from __future__ import annotations

from blockscale.layouts.blackwell import SCALE as ATOM_128X4
from blockscale.layouts.tiling import Tiling

N32K4 = Tiling("gfx1250 n32k4", rows=(32,), columns=(4,), order=(0, 2, 1, 3))
"""AITER's and vLLM's: tiles of 32 rows by 4 scales, row by row."""

__all__ = ["ATOM_128X4", "N32K4"]
