"""A layout as data: rows and columns split into factors, the factors written in another order, the rest padding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tiling:
    """A reordering of the last two dimensions (rows, columns) of a tensor; leading dimensions stay.

    `rows` and `columns` are the factors within a tile, outermost first; how many tiles there are stands before each, so
    that a tensor is seen as (row tiles, *rows, column tiles, *columns). `order` lists these dimensions as memory has
    them, outermost first. Sizes are padded to multiples of `pad_rows` and `pad_columns` (at least a tile) with `pad`.
    """

    name: str
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    order: tuple[int, ...]
    pad_rows: int = 1
    pad_columns: int = 1
    pad: int = 0

    def padded(self, rows: int, columns: int) -> tuple[int, int]:
        """The padded size of a (rows, columns) tensor."""
        return _up(rows, math.lcm(self.pad_rows, math.prod(self.rows))), _up(
            columns, math.lcm(self.pad_columns, math.prod(self.columns))
        )

    def shuffle(self, plain: torch.Tensor) -> torch.Tensor:
        """(..., rows, columns) to this layout: contiguous, of the padded size. ValueError below two dimensions."""
        if plain.dim() < 2:
            raise ValueError(f"plain: got {plain.dim()} dimensions, expected at least two, (rows, columns)")
        rows, columns = self.padded(*plain.shape[-2:])
        whole = plain.new_full((*plain.shape[:-2], rows, columns), self.pad)
        whole[..., : plain.shape[-2], : plain.shape[-1]] = plain
        return _permute(whole.view(*plain.shape[:-2], *self._factors(rows, columns)), self.order).reshape(whole.shape)

    def unshuffle(self, shuffled: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """The inverse: (..., rows, columns) without padding. ValueError if `shuffled` is not of the padded size."""
        factors = self._factors(*self.expect_padded(shuffled, rows, columns))
        in_memory = shuffled.reshape(*shuffled.shape[:-2], *(factors[dim] for dim in self.order))
        inverse = [self.order.index(dim) for dim in range(len(self.order))]
        return _permute(in_memory, inverse).reshape(shuffled.shape)[..., :rows, :columns].contiguous()

    def expect_padded(self, shuffled: torch.Tensor, rows: int, columns: int) -> tuple[int, int]:
        """The padded size of (rows, columns). ValueError if `shuffled` is not of it."""
        padded = self.padded(rows, columns)
        if tuple(shuffled.shape[-2:]) != padded:
            got = tuple(shuffled.shape)
            raise ValueError(f"shuffled: got shape {got}, expected (..., {padded[0]}, {padded[1]}) for {self.name}")
        return padded

    def _factors(self, rows: int, columns: int) -> tuple[int, ...]:
        return (rows // math.prod(self.rows), *self.rows, columns // math.prod(self.columns), *self.columns)


def _permute(tensor: torch.Tensor, order: tuple[int, ...] | list[int]) -> torch.Tensor:
    """Permute the last len(order) dimensions."""
    leading = tensor.dim() - len(order)
    return tensor.permute(*range(leading), *(leading + dim for dim in order))


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
