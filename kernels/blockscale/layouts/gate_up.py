"""The order of w13's rows: gates and ups one by one, in halves, or in turns of 16 rows."""

from __future__ import annotations

import torch


def interleaved_to_halves(w13: torch.Tensor, dim: int = -2) -> torch.Tensor:
    """Rows g0, u0, g1, u1, ... to g0, g1, ..., u0, u1, ...; `dim` runs over the rows."""
    return w13.unflatten(dim, (-1, 2)).transpose(*_pair(dim)).flatten(*_pair(dim)).contiguous()


def halves_to_interleaved(w13: torch.Tensor, dim: int = -2) -> torch.Tensor:
    """The inverse of `interleaved_to_halves`."""
    return w13.unflatten(dim, (2, -1)).transpose(*_pair(dim)).flatten(*_pair(dim)).contiguous()


def halves_to_turns(w13: torch.Tensor, turn: int = 16) -> torch.Tensor:
    """(..., 2 I, C) in halves to 16 gates, 16 ups, 16 gates, ...: AITER's gate/up interleave, before it shuffles.

    ValueError if I is not a multiple of `turn`.
    """
    rows = w13.shape[-2]
    if rows % (2 * turn):
        raise ValueError(
            f"w13: got {rows} rows, expected a multiple of {2 * turn}: turns of {turn} gates and {turn} ups"
        )
    return w13.unflatten(-2, (2, -1, turn)).transpose(-4, -3).flatten(-4, -2).contiguous()


def turns_to_halves(w13: torch.Tensor, turn: int = 16) -> torch.Tensor:
    """The inverse of `halves_to_turns`."""
    return w13.unflatten(-2, (-1, 2, turn)).transpose(-4, -3).flatten(-4, -2).contiguous()


def _pair(dim: int) -> tuple[int, int]:
    """The two dimensions that unflattening a negative `dim` gives."""
    return dim - 1, dim
