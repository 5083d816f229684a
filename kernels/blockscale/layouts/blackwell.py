"""Blackwell's scale layout: atoms of 128 rows by 4 scales, as tcgen05 and cuBLAS read them."""

from __future__ import annotations

from blockscale.layouts.tiling import Tiling

SCALE = Tiling("128x4 atom", rows=(4, 32), columns=(4,), order=(0, 3, 2, 1, 4))
"""Row r of an atom lies at (r % 32) * 16 + (r / 32) * 4: four rows, 32 apart, share 16 bytes."""
