"""Where each backend's kernels read an element, by index formulas read in the backends' own sources.

Row n, column c of a padded matrix with C columns; gates and ups g = 0 and 1. The formulas are those of AITER's
shuffle_weight and e8m0_shuffle, its gate/up interleave, and n32k4 as AITER and vLLM have it for gfx1250.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Place = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def _linear_weight(n: torch.Tensor, c: torch.Tensor, C: int) -> torch.Tensor:
    return n // 16 * 16 * C + c // 32 * 512 + c % 32 // 16 * 256 + n % 16 * 16 + c % 16


def _weight(n: torch.Tensor, c: torch.Tensor, C: int) -> torch.Tensor:
    return n // 16 * 16 * C + c // 64 * 1024 + c % 64 // 16 * 256 + n % 16 * 16 + c % 16


def _scale(n: torch.Tensor, k: torch.Tensor, C: int) -> torch.Tensor:
    return n // 32 * 32 * C + k // 8 * 256 + k % 4 * 64 + n % 16 * 4 + k % 8 // 4 * 2 + n % 32 // 16


def _n32k4(n: torch.Tensor, k: torch.Tensor, C: int) -> torch.Tensor:
    return n // 32 * 32 * C + k // 4 * 128 + n % 32 * 4 + k % 4


def in_turns(n: torch.Tensor, rows: int) -> torch.Tensor:
    """The row of row n of w13 whose rows are gates and ups one by one, in turns of 16 gates and 16 ups."""
    each, g = n // 2, n % 2
    return each // 16 * 32 + g * 16 + each % 16


#: How w13's rows are ordered, where an element lies, and what rows and columns are padded to.
LAYOUTS: dict[str, tuple[bool, Place, int, int]] = {
    "shuffled in turns": (True, _weight, 16, 64),
    "shuffled": (False, _weight, 16, 64),
    "e8m0 in turns": (True, _scale, 256, 8),
    "e8m0": (False, _scale, 256, 8),
    "weight (16, 16)": (False, _linear_weight, 16, 32),
    "n32k4": (False, _n32k4, 32, 4),
}


def placed(plain: torch.Tensor, layout: str) -> torch.Tensor:
    """(E, rows, columns) with each element where the layout has it; what is padding is zero."""
    turns, place, row_multiple, column_multiple = LAYOUTS[layout]
    experts, rows, columns = plain.shape
    C, height = -(-columns // column_multiple) * column_multiple, -(-rows // row_multiple) * row_multiple
    n, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    out = plain.new_zeros(experts, height * C)
    out[:, place(in_turns(n, rows) if turns else n, c, C).flatten()] = plain.flatten(1)
    return out.view(experts, height, C)


def taken(shuffled: torch.Tensor, layout: str, rows: int, columns: int) -> torch.Tensor:
    """The inverse of `placed`."""
    turns, place, _, _ = LAYOUTS[layout]
    n, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    where = place(in_turns(n, rows) if turns else n, c, shuffled.shape[-1])
    return shuffled.flatten(1)[:, where.flatten()].view(len(shuffled), rows, columns)


def packed_words(codes: torch.Tensor) -> torch.Tensor:
    """(E, rows, k) e8m0 codes as DeepGEMM has them: column 4 w + j is byte j of word w."""
    words = torch.nn.functional.pad(codes, (0, -codes.shape[-1] % 4)).unflatten(-1, (-1, 4)).int()
    return (words << torch.tensor([0, 8, 16, 24])).sum(-1, dtype=torch.int32)


def named(got: Any, plain: torch.Tensor) -> str:
    """What a converted tensor is: `as loaded` or a layout's name, `wrapped` in front for what is no tensor."""
    if got is None:
        return "none"
    wrapped = "" if isinstance(got, torch.Tensor) else "wrapped, "
    if wrapped and (got.shape != plain.shape or hasattr(got, "detach")):
        return f"wrapped, with shape {tuple(got.shape)} for {tuple(plain.shape)}, detach {hasattr(got, 'detach')}"
    data = got.data if wrapped else got
    if _same(data, plain):
        return f"{wrapped}as loaded"
    if plain.dim() == 2:
        return f"{wrapped}halves" if _same(data, torch.cat([plain[:, 0::2], plain[:, 1::2]], 1)) else "another order"
    if _same(data, packed_words(plain)):
        return f"{wrapped}packed"
    known = (name for name in LAYOUTS if _same(data, placed(plain, name)))
    return wrapped + next(known, f"another layout, {tuple(data.shape)}")


def _same(got: torch.Tensor, want: torch.Tensor) -> bool:
    return got.dtype == want.dtype and torch.equal(got, want)
