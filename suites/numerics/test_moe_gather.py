"""Sorting and gathering for Hopper's MoE, which are portable: the order, the tiles and the columns, to the bit."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels.moe_router import Logits, Router, route

from .ways import by

pytestmark = by("interpreter", "device, not AMD's")
gather = pytest.importorskip("blockscale.kernels.triton.moe_gather", reason="needs Triton")

# Tokens, experts, top_k, hidden, intermediate, tile: one launch for up to 128 assignments, and two beyond.
SIZES = [
    (1, 4, 4, 32, 32, 8),
    (9, 5, 2, 160, 96, 4),
    (70, 7, 3, 256, 320, 16),
    (33, 5, 4, 96, 128, 2),
    (3, 9, 1, 64, 64, 8),
]


def place(column):
    """By the words of the kernel: thread t of four holds 32 columns, words of eight, n and n + 4 of a word together."""
    thread, word, upper, half, pair = column // 32 % 4, column // 8 % 4, column // 4 % 2, column // 2 % 2, column % 2
    return column // 128 * 128 + half * 64 + word * 16 + pair * 8 + thread * 2 + upper


@pytest.mark.parametrize("with_map", [False, True])
@pytest.mark.parametrize(("tokens", "experts", "top_k", "hidden", "intermediate", "size"), SIZES)
def test_rows_by_expert_and_columns_in_place(tokens, experts, top_k, hidden, intermediate, size, with_map, path):
    generator = torch.Generator().manual_seed(tokens)
    x = torch.randn(tokens, hidden, generator=generator).bfloat16()
    ids = torch.stack([torch.randperm(experts, generator=generator)[:top_k] for _ in range(tokens)]).int()
    expert_map = torch.arange(experts, dtype=torch.int32)
    expert_map[1::2] = -1
    local = (expert_map[ids.long()] if with_map else ids).flatten().tolist()
    inner = torch.full((tokens * top_k, gather.whole_groups(intermediate)), float("nan")).bfloat16()
    inner_there = path.put(inner)
    mapped = path.put(expert_map) if with_map else None
    rows, found = gather.sort_and_gather(
        path.put(x), path.put(ids), mapped, experts, inner_there, intermediate, size, early=False
    )
    order = sorted((a for a in range(tokens * top_k) if local[a] >= 0), key=lambda a: (local[a], a))
    position = torch.full((tokens * top_k,), -1, dtype=torch.int32)
    position[order] = torch.arange(len(order), dtype=torch.int32)
    assert torch.equal(found.position.flatten().cpu(), position)

    columns = torch.arange(gather.whole_groups(hidden))
    wide = torch.nn.functional.pad(x, (0, len(columns) - hidden))
    want = torch.empty_like(wide)
    want[:, place(columns)] = wide
    assert torch.equal(rows[: len(order)].cpu(), want[torch.tensor(order) // top_k])

    tiles = []
    for expert in range(experts):
        own = [row for row, assignment in enumerate(order) if local[assignment] == expert]
        tiles += [[expert, first, own[-1] + 1] for first in own[::size]]
    assert found.tiles.view(-1, 3)[: int(found.count)].tolist() == tiles

    tail = inner_there[: len(order), place(torch.arange(inner.shape[1]))][:, intermediate:]
    assert (tail == 0).all(), "columns past I are multiplied, and must be zero"


# The last two choose in a launch of their own: too many logits, and too many assignments.
@pytest.mark.parametrize(
    ("tokens", "experts", "top_k"), [(1, 128, 4), (16, 64, 8), (5, 6, 3), (20, 128, 4), (50, 8, 3)]
)
@pytest.mark.parametrize("with_map", [False, True])
def test_from_logits_as_from_the_experts_chosen(tokens, experts, top_k, with_map, path):
    generator = torch.Generator().manual_seed(tokens)
    x = path.put(torch.randn(tokens, 96, generator=generator).bfloat16())
    logits, router = path.put(torch.randn(tokens, experts, generator=generator)), Router(top_k)
    mapped = path.put((torch.arange(experts) - experts // 4).clamp(min=-1).int()) if with_map else None
    weights, ids = route(logits, router)

    def sorted_and_gathered(ids, routed):
        inner = path.put(torch.zeros(tokens * top_k, 128).bfloat16())
        return gather.sort_and_gather(x, ids, mapped, experts, inner, 64, 8, early=False, routed=routed)

    given = torch.full_like(weights, float("nan"))
    rows, found = sorted_and_gathered(torch.full_like(ids, -7), (Logits(logits, router, None), given))
    want, expected = sorted_and_gathered(ids, None)
    count = int(expected.count)
    held = int((expected.position >= 0).sum())
    assert torch.equal(found.position, expected.position) and int(found.count) == count
    assert torch.equal(found.tiles[: 3 * count], expected.tiles[: 3 * count])
    assert torch.equal(rows[:held], want[:held])
    assert torch.allclose(given, weights, rtol=1e-5, atol=0)


@pytest.mark.parametrize("splits", [1, 3])
def test_sum_of_slots(splits, path):
    """A slot of another rank counts nothing, whatever lies in the row that it has not."""
    rows = torch.randn(splits, 6, 100)
    rows = rows.bfloat16() if splits == 1 else rows
    position = torch.tensor([[3, 0], [-1, 2], [-1, -1], [5, 1]], dtype=torch.int32)
    weights = torch.rand(4, 2)
    chosen = torch.where((position >= 0)[..., None], rows.float().sum(0)[position.long()], 0)
    got = gather.sum_slots(path.put(rows), path.put(weights), path.put(position), early=False).cpu()
    assert torch.allclose(got.float(), (chosen * weights[..., None]).sum(1), rtol=8e-3, atol=1e-5)
