"""Padding of MXFP4 MoE weights to the sizes that a backend's kernels need. All that is added is zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from blockscale.formats.mx import BLOCK


@dataclass(frozen=True)
class Padding:
    """Multiples that the intermediate and the hidden size are padded to; 1 leaves a size as it is."""

    intermediate: int
    hidden: int

    def padded(self, intermediate: int, hidden: int) -> tuple[int, int]:
        """The padded (intermediate, hidden) of a layer."""
        return -(-intermediate // self.intermediate) * self.intermediate, -(-hidden // self.hidden) * self.hidden


def pad_w13(w13: torch.Tensor, intermediate: int, columns: int, interleaved: bool) -> torch.Tensor:
    """Weights or scales (E, 2 I, C) to (E, 2 * intermediate, columns), a half at a time unless rows are interleaved.

    Biases are (E, 2 I, 1) with `columns` 1. ValueError if a size would shrink.
    """
    if interleaved:
        return _pad(w13, 2 * intermediate, columns)
    halves = w13.unflatten(-2, (2, -1))  # (E, 2, I, C)
    return _pad(halves, intermediate, columns).flatten(-3, -2)


def pad_w2(w2: torch.Tensor, hidden: int, columns: int) -> torch.Tensor:
    """Weights or scales (E, H, C) to (E, hidden, columns). ValueError if a size would shrink."""
    return _pad(w2, hidden, columns)


def packed_columns(size: int) -> int:
    """Bytes of a row of `size` packed e2m1 elements."""
    return size // 2


def scale_columns(size: int) -> int:
    """Scales of a row of `size` elements."""
    return -(-size // BLOCK)


def _pad(tensor: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    more_rows, more_columns = rows - tensor.shape[-2], columns - tensor.shape[-1]
    if more_rows < 0 or more_columns < 0:
        raise ValueError(f"tensor: got shape {tuple(tensor.shape)}, expected at most (..., {rows}, {columns})")
    return torch.nn.functional.pad(tensor, (0, more_columns, 0, more_rows))
