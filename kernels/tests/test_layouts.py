"""Hopper's value layout against its index formula and the kernel's way of reading it; cuBLASLt's scales; and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blockscale.formats import e2m1
from blockscale.layouts import cublas, hopper

MMA_VERSIONS = pytest.mark.parametrize("mma_version", [2, 3])


def place(n, c, C, mma_version):
    """Where byte c of row n lies before codes are interleaved, in rows of C bytes: integer division, as in the source.

    16 rows by 32 bytes are a tile, four tiles of an mma along a row for version 3; a thread's bytes lie together.
    """
    tile = (n // 16 * 4 + n % 8 // 2) * (C // 32) + c // 32
    if mma_version == 3:
        return tile * 128 + n % 2 * 64 + c % 4 * 16 + c % 32 // 8 * 4 + c % 8 // 4 * 2 + n % 16 // 8
    return tile * 128 + n % 2 * 64 + c % 16 // 4 * 16 + c % 32 // 16 * 8 + n % 16 // 8 * 4 + c % 4


def as_the_kernel_reads(shuffled):
    """(bytes / 4, 8) values of each word's codes, byte by byte, low nibble first: shifts, masks and one product."""
    word = shuffled.flatten().view(torch.int32).long() & 0xFFFFFFFF
    mask = 0b10000001110000001000000111000000
    fourth = (word << 1 & 0x80008000) | (word >> 3 & 0x01800180) | (word >> 7 & 0x00400040)
    pairs = torch.stack([word & mask, word << 3 & mask, word << 6 & mask, fourth], 1)
    signed = torch.where(pairs >= 1 << 31, pairs - (1 << 32), pairs).int()
    return signed.contiguous().view(torch.bfloat16).float().view(-1, 8) * 2.0**126


@MMA_VERSIONS
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_each_code_is_where_the_formula_says_and_reads_as_its_number(mma_version, data):
    rows, columns = data.draw(st.integers(1, 270), "rows"), data.draw(st.integers(1, 130), "columns")
    plain = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
    layout = hopper.value(mma_version)
    shuffled = layout.shuffle(plain)
    assert shuffled.shape == (-(-rows // 256) * 256, -(-columns // 64) * 64) == layout.padded(rows, columns)
    assert shuffled.is_contiguous() and shuffled.dtype == torch.uint8
    read = as_the_kernel_reads(shuffled).view(-1, 2)  # by byte
    n, c = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    places = place(n, c, shuffled.shape[1], mma_version)
    want = torch.stack([e2m1.decode(plain & 0xF), e2m1.decode(plain >> 4)], -1)
    assert torch.equal(read[places], want.float())
    padding = torch.ones(shuffled.numel(), dtype=torch.bool)
    padding[places.flatten()] = False
    assert (read[padding] == 0).all(), "the padding is not zero"


@MMA_VERSIONS
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_round_trip(mma_version, data):
    rows, columns = data.draw(st.integers(1, 530)), data.draw(st.integers(1, 140))
    leading = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    plain = torch.randint(0, 256, (*leading, rows, columns), dtype=torch.uint8)
    shuffled = hopper.value(mma_version).shuffle(plain)
    assert torch.equal(hopper.value(mma_version).unshuffle(shuffled, rows, columns), plain)
    if leading:  # experts do not mix
        assert torch.equal(shuffled[0], hopper.value(mma_version).shuffle(plain[0]))


def test_every_byte_in_every_place_of_a_word_comes_back():
    plain = torch.arange(256, dtype=torch.uint8).repeat(256, 1).roll(1, 1)
    plain[1::2] = plain[1::2].flip(1)
    for version in (2, 3):
        assert torch.equal(hopper.value(version).unshuffle(hopper.value(version).shuffle(plain), 256, 256), plain)


def test_bad_values():
    with pytest.raises(ValueError, match="mma_version: got 5, expected 2 or 3"):
        hopper.value(5)
    with pytest.raises(
        ValueError, match=r"packed: got torch\.float32, expected torch\.uint8, two e2m1 codes to a byte"
    ):
        hopper.value().shuffle(torch.zeros(16, 32))
    with pytest.raises(
        ValueError, match=r"shuffled: got shape \(16, 32\), expected \(..., 256, 64\) for Hopper values"
    ):
        hopper.value().unshuffle(torch.zeros(16, 32, dtype=torch.uint8), 16, 32)


@settings(deadline=None)
@given(n=st.integers(1, 9), k=st.integers(1, 9))
def test_cublas_block_scales(n, k):
    plain = torch.rand(n, k)
    laid_out, padded = cublas.block_scale(plain), k + -k % 4
    assert laid_out.shape == (padded, n) and laid_out.stride() == (1, padded)
    assert torch.equal(laid_out[:k], plain.t()) and (laid_out[k:] == 0).all()
    assert torch.equal(cublas.plain_block_scale(laid_out, k), plain)
    with pytest.raises(ValueError, match=f"laid_out: got {padded} rows, expected {padded + 4} for k = {k + 4}"):
        cublas.plain_block_scale(laid_out, k + 4)
    rows = cublas.columns_first(plain)
    assert torch.equal(rows, plain) and rows.stride(0) == 1 and (rows.stride(1) == n or k == 1)
