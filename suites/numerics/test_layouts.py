"""Layouts against their index formulas, element by element, and back again for every shape."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blockscale.layouts import aiter, blackwell, deepgemm, gate_up, gfx1250, hopper
from blockscale.layouts.padding import Padding, pad_w2, pad_w13

# Where row n, column c of a padded (N, C) tensor lies, with integer division, as the backends' sources have it.
FORMULAS = {
    "aiter weight": (
        aiter.WEIGHT, (16, 32),
        lambda n, c, C: n // 16 * 16 * C + c // 32 * 512 + c % 32 // 16 * 256 + n % 16 * 16 + c % 16),
    "aiter moe weight": (
        aiter.MOE_WEIGHT, (16, 64),
        lambda n, c, C: n // 16 * 16 * C + c // 64 * 1024 + c % 64 // 16 * 256 + n % 16 * 16 + c % 16),
    "aiter scale": (
        aiter.SCALE, (256, 8),
        lambda n, k, SK: n // 32 * 32 * SK + k // 8 * 256 + k % 4 * 64 + n % 16 * 4 + k % 8 // 4 * 2 + n % 32 // 16),
    "gfx1250 n32k4": (
        gfx1250.N32K4, (32, 4), lambda n, k, SK: n // 32 * 32 * SK + k // 4 * 128 + n % 32 * 4 + k % 4),
    "gfx1250 128x4": (
        gfx1250.ATOM_128X4, (128, 4),
        lambda n, k, SK: n // 128 * 128 * SK + k // 4 * 512 + n % 32 * 16 + n % 128 // 32 * 4 + k % 4),
    **{f"hopper {w} warps": (
        hopper.scale(w), (32 * w, 2),
        lambda m, k, SK, w=w: (m // (32 * w) * w + m % (16 * w) // 16) * (SK // 2) * 64 + k // 2 * 64
        + m % (32 * w) // (16 * w) * 32 + m % 8 * 4 + k % 2 * 2 + m % 16 // 8) for w in (4, 8)},
}  # fmt: skip

LAYOUTS = pytest.mark.parametrize("name", FORMULAS)


@LAYOUTS
@given(data=st.data())
def test_each_element_is_where_the_formula_says(name, data):
    layout, (tile_rows, tile_columns), formula = FORMULAS[name]
    rows = data.draw(st.integers(1, 2 * tile_rows + 1), "rows")
    columns = data.draw(st.integers(1, 3 * tile_columns + 1), "columns")
    plain = torch.arange(1, rows * columns + 1, dtype=torch.int32).view(rows, columns)
    shuffled = layout.shuffle(plain)
    assert shuffled.is_contiguous()
    assert shuffled.shape == (-(-rows // tile_rows) * tile_rows, -(-columns // tile_columns) * tile_columns)
    n, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = formula(n, c, shuffled.shape[1])
    assert torch.equal(shuffled.flatten()[places], plain)
    padding = torch.ones(shuffled.numel(), dtype=torch.bool)
    padding[places.flatten()] = False
    assert (shuffled.flatten()[padding] == 0).all(), "the padding is not zero"


@LAYOUTS
@given(data=st.data())
def test_round_trip(name, data):
    layout, (tile_rows, tile_columns), _ = FORMULAS[name]
    rows, columns = data.draw(st.integers(1, 2 * tile_rows + 1)), data.draw(st.integers(1, 2 * tile_columns + 1))
    leading = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    plain = torch.randint(0, 256, (*leading, rows, columns), dtype=torch.uint8)
    shuffled = layout.shuffle(plain)
    assert torch.equal(layout.unshuffle(shuffled, rows, columns), plain)
    if leading:  # experts do not mix
        assert torch.equal(shuffled[0], layout.shuffle(plain[0]))


def test_the_two_layouts_of_gfx1250_differ():
    plain = torch.arange(128 * 4).view(128, 4)
    assert not torch.equal(gfx1250.N32K4.shuffle(plain), gfx1250.ATOM_128X4.shuffle(plain))
    assert gfx1250.ATOM_128X4 is blackwell.SCALE and aiter.CDNA4_SCALE is aiter.SCALE


@given(experts=st.integers(1, 3), turns=st.integers(1, 3), tiles=st.integers(1, 2))
def test_aiters_gate_up_interleave(experts, turns, tiles):
    """The formula with g = 0 for a gate and 1 for an up, for weights and for scales."""
    half, columns = 16 * turns, 64 * tiles
    plain = torch.arange(experts * 2 * half * columns, dtype=torch.int32).view(experts, 2 * half, columns)
    shuffled = aiter.shuffle_w13(plain)
    g, n, c = torch.meshgrid(torch.arange(2), torch.arange(half), torch.arange(columns), indexing="ij")
    place = n // 16 * 32 * columns + g * 16 * columns + c // 64 * 1024 + c % 64 // 16 * 256 + n % 16 * 16 + c % 16
    for expert in range(experts):
        assert torch.equal(shuffled[expert].flatten()[place], plain[expert].view(2, half, columns))
    assert torch.equal(aiter.unshuffle_w13(shuffled), plain)

    scales = plain[..., : 8 * tiles].contiguous()
    shuffled = aiter.shuffle_w13_scale(scales)
    g, n, k = torch.meshgrid(torch.arange(2), torch.arange(half), torch.arange(8 * tiles), indexing="ij")
    place = n // 16 * 32 * 8 * tiles + k // 8 * 256 + k % 4 * 64 + n % 16 * 4 + k % 8 // 4 * 2 + g
    for expert in range(experts):
        assert torch.equal(shuffled[expert].flatten()[place], scales[expert].view(2, half, -1))
    assert torch.equal(aiter.unshuffle_w13_scale(shuffled, 2 * half, 8 * tiles), scales)


def test_gate_up_orders():
    rows = torch.tensor([0, 1, 2, 3, 4, 5]).view(6, 1)
    assert gate_up.interleaved_to_halves(rows).flatten().tolist() == [0, 2, 4, 1, 3, 5]
    assert gate_up.halves_to_interleaved(rows).flatten().tolist() == [0, 3, 1, 4, 2, 5]
    assert torch.equal(gate_up.halves_to_interleaved(gate_up.interleaved_to_halves(rows)), rows)
    bias = torch.arange(12).view(2, 6)
    assert gate_up.interleaved_to_halves(bias, dim=-1)[1].tolist() == [6, 8, 10, 7, 9, 11]
    with pytest.raises(ValueError, match="w13: got 48 rows, expected a multiple of 32"):
        gate_up.halves_to_turns(torch.zeros(1, 48, 64))


@given(rows=st.integers(1, 9), k=st.integers(1, 9), leading=st.sampled_from([(), (2,)]))
def test_deepgemms_packed_scales(rows, k, leading):
    codes = torch.randint(0, 256, (*leading, rows, k), dtype=torch.uint8)
    packed = deepgemm.pack_scale(codes)
    words, height = -(-k // 4), -(-rows // 4) * 4
    assert packed.shape == (*leading, rows, words) and packed.stride()[-2:] == (1, height)
    for column in range(k):
        assert torch.equal((packed[..., column // 4] >> (8 * (column % 4))) & 0xFF, codes[..., column].int())
    assert torch.equal(deepgemm.unpack_scale(packed, k), codes)
    if k % 4:
        past = packed[..., -1] >> (8 * (k % 4))
        assert (past == 0).all()


@given(intermediate=st.integers(1, 40), hidden=st.integers(1, 40), multiple=st.sampled_from([1, 8, 32]))
def test_padding_keeps_each_half_together(intermediate, hidden, multiple):
    new_intermediate, new_hidden = Padding(multiple, 8).padded(intermediate, hidden)
    assert new_intermediate % multiple == 0 and 0 <= new_intermediate - intermediate < multiple
    w13 = torch.arange(1, 2 * 2 * intermediate * hidden + 1).view(2, 2 * intermediate, hidden)
    halves = pad_w13(w13, new_intermediate, new_hidden, interleaved=False)
    assert torch.equal(halves[:, :intermediate, :hidden], w13[:, :intermediate])
    assert torch.equal(halves[:, new_intermediate : new_intermediate + intermediate, :hidden], w13[:, intermediate:])
    turns = pad_w13(w13, new_intermediate, new_hidden, interleaved=True)
    assert torch.equal(turns[:, : 2 * intermediate, :hidden], w13)
    w2 = pad_w2(w13, new_hidden + 2 * intermediate, new_hidden)
    assert torch.equal(w2[:, : 2 * intermediate, :hidden], w13)
    for padded in (halves, turns, w2):
        assert padded.sum() == w13.sum(), "the padding is not zero"


def test_bad_shapes():
    with pytest.raises(ValueError, match="plain: got 1 dimensions, expected at least two"):
        aiter.WEIGHT.shuffle(torch.zeros(4))
    with pytest.raises(ValueError, match=r"shuffled: got shape \(8, 8\), expected \(..., 256, 8\) for AITER's e8m0"):
        aiter.SCALE.unshuffle(torch.zeros(8, 8), 8, 8)
    with pytest.raises(ValueError, match="num_warps: got 2, expected 4 or 8"):
        hopper.scale(2)
    with pytest.raises(ValueError, match="packed: got 1 columns, expected 2 for k = 5"):
        deepgemm.unpack_scale(torch.zeros(4, 1, dtype=torch.int32), 5)
    with pytest.raises(ValueError, match=r"tensor: got shape \(1, 4, 4\), expected at most \(..., 2, 4\)"):
        pad_w2(torch.zeros(1, 4, 4), 2, 4)
