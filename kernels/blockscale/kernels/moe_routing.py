"""Which rows go to which expert: assignments sorted into tiles that belong to one expert each."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tiles:
    """Assignments (token * top_k + slot) in tiles of `size` rows, each tile of one expert.

    rows: (count * size,) int32, an assignment each, or the number of assignments where a row is padding.
    experts: (count,) int32, each tile's local expert, or the number of experts where a tile is unused.
    """

    rows: torch.Tensor
    experts: torch.Tensor
    size: int


def local_experts(topk_ids: torch.Tensor, expert_map: torch.Tensor | None) -> torch.Tensor:
    """Local expert of each assignment, (M, top_k) int64; -1 where another rank has it."""
    ids = topk_ids.long()
    return ids if expert_map is None else expert_map.long()[ids]


def sort_into_tiles(local: torch.Tensor, experts: int, size: int) -> Tiles:
    """Sort assignments (M, top_k) of local experts, -1 meaning none, by expert. The device is not waited for.

    The number of tiles is the most there can be, for how many are used only the device knows.
    """
    flat = torch.where(local < 0, experts, local).flatten()
    total = flat.numel()
    count = total // size + min(experts, total)
    order = torch.argsort(flat, stable=True)
    expert = flat[order]
    per_expert = torch.zeros(experts + 1, dtype=torch.int64, device=flat.device)
    per_expert.scatter_add_(0, flat, torch.ones_like(flat))
    tiles = (per_expert + size - 1) // size
    last_tile = tiles.cumsum(0)
    first_row = (last_tile - tiles) * size
    # An assignment's row: its expert's first row, plus its rank within that expert.
    rank = torch.arange(total, device=flat.device) - (per_expert.cumsum(0) - per_expert)[expert]
    target = torch.where(expert < experts, first_row[expert] + rank, count * size)  # the rest go to one spare row
    rows = torch.full((count * size + 1,), total, dtype=torch.int32, device=flat.device)
    rows[target] = order.int()
    tile = torch.arange(count, device=flat.device)
    owner = torch.searchsorted(last_tile[:experts].contiguous(), tile, right=True)
    return Tiles(rows[:-1], owner.int(), size)


def weighted_sum(rows: torch.Tensor, topk_weights: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """(M, H) fp32 of rows (M * top_k, H), one per assignment: those of other ranks' experts count nothing."""
    M, top_k = local.shape
    products = rows.view(M, top_k, -1).float() * topk_weights.float().unsqueeze(-1)
    return torch.where(local.unsqueeze(-1) < 0, 0.0, products).sum(1)
