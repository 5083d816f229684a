"""Hopper's layouts for triton_kernels' MXFP4 GEMM: each thread's scales, and each thread's weights, lie together."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from blockscale.layouts.tiling import Tiling


@functools.cache
def scale(num_warps: int) -> Tiling:
    """The layout for a kernel of 4 or 8 warps. Rows are padded to 32 per warp, columns to 2. ValueError for others."""
    if num_warps not in (4, 8):
        raise ValueError(f"num_warps: got {num_warps}, expected 4 or 8")
    return Tiling(f"Hopper scales, {num_warps} warps", (2, num_warps, 2, 8), (2,), (0, 2, 5, 1, 4, 6, 3))


@dataclass(frozen=True)
class HopperValue:
    """Packed e2m1 weights as the tensor cores' threads take them, ready to become bf16 in few instructions.

    Bytes (rows, K / 2) are tiled, 16 rows by 32 bytes; then the eight codes of four neighbouring bytes share a 32-bit
    word in which each is a shift and a mask away from a bf16 number. Source: triton_kernels' hopper_value.py
    (triton-lang, 2026), for weights whose blocks run along the last dimension. It views the same memory as
    (rows / 4, 2 K).
    """

    tiling: Tiling

    def padded(self, rows: int, columns: int) -> tuple[int, int]:
        """The padded size of (rows, columns) bytes."""
        return self.tiling.padded(rows, columns)

    def shuffle(self, packed: torch.Tensor) -> torch.Tensor:
        """(..., rows, K / 2) uint8 to this layout, of the padded size. ValueError for another dtype or fewer dims."""
        if packed.dtype != torch.uint8:
            raise ValueError(f"packed: got {packed.dtype}, expected torch.uint8, two e2m1 codes to a byte")
        shuffled = self.tiling.shuffle(packed)
        return _interleaved(shuffled.unflatten(-1, (-1, 4))).flatten(-2)

    def unshuffle(self, shuffled: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """The inverse: (..., rows, columns) bytes without padding. ValueError if the size is not the padded one."""
        self.tiling.expect_padded(shuffled, rows, columns)
        return self.tiling.unshuffle(_separated(shuffled.unflatten(-1, (-1, 4))).flatten(-2), rows, columns)


@functools.cache
def value(mma_version: int = 3) -> HopperValue:
    """The layout for wgmma (3) or mma.sync (2): rows are padded to 256, bytes of a row to 64. ValueError for others.

    triton_kernels of 2025 pads rows to 64 only; what lies where is the same.
    """
    if mma_version not in (2, 3):
        raise ValueError(f"mma_version: got {mma_version}, expected 2 or 3")
    together = 4 if mma_version == 2 else 1  # bytes that a thread takes of one row
    columns = (4 // together, 2, 4, together)
    name = f"Hopper values, mma version {mma_version}"
    return HopperValue(Tiling(name, (2, 4, 2), columns, (0, 2, 4, 3, 7, 5, 6, 1, 8), pad_rows=256, pad_columns=64))


# Where the bits of four codes lie in a 16-bit half, as (bits of the code, shift up). The first three are bf16's sign
# and the lower exponent and upper mantissa bits, each three bits further down; the fourth has what is left.
_PLACES = (((0x8, 12), (0x7, 6)), ((0x8, 9), (0x7, 3)), ((0x8, 6), (0x7, 0)), ((0x8, 11), (0x6, 9), (0x1, 13)))


def _interleaved(packed: torch.Tensor) -> torch.Tensor:
    """(..., 4) bytes to their word's, little-endian: low nibbles make its lower half, high ones the upper."""
    codes = torch.stack([packed & 0xF, packed >> 4], -1).int()  # (..., 4, 2 halves)
    halves = torch.zeros_like(codes[..., 0, :])
    for code, places in zip(codes.unbind(-2), _PLACES, strict=True):
        for bits, up in places:
            halves |= (code & bits) << up
    return torch.stack([halves & 0xFF, halves >> 8], -1).flatten(-2).to(torch.uint8)


def _separated(word: torch.Tensor) -> torch.Tensor:
    """The inverse of `_interleaved`."""
    lower, upper = word.int().unflatten(-1, (2, 2)).unbind(-1)
    halves = lower | upper << 8  # (..., 2 halves)
    packed = []
    for places in _PLACES:
        code = torch.zeros_like(halves)
        for bits, up in places:
            code |= halves >> up & bits
        packed.append(code[..., 0] | code[..., 1] << 4)
    return torch.stack(packed, -1).to(torch.uint8)
