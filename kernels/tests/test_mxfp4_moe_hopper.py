"""Hopper's MXFP4 MoE on a Hopper card, by every way to tile it, against the same in plain torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from blockscale.formats import mx
from blockscale.kernels import configs
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI

on_hopper = pytest.mark.cuda("sm_90")


@pytest.fixture
def hopper():
    """The launcher, where Triton is installed."""
    return pytest.importorskip("blockscale.kernels.triton.mxfp4_moe_hopper_launch")


@pytest.fixture
def card(hopper):
    """The launcher, on a Hopper card: the marks see to that."""
    assert hopper.gluon.AVAILABLE, "this Triton has no Gluon for Hopper, and everything would go the portable way"
    return hopper


def gemm(warpgroups, stages, small=0, split=1, **more):
    return {"WARPGROUPS": warpgroups, "STAGES": stages, "SMALL_T": small, "SPLIT_K": split, **more}


WAYS = {
    "8": {"BLOCK_T": 8, "w13": gemm(1, 6, PROGRAMS=4, maxnreg=64), "w2": gemm(1, 6, split=3)},
    "16, two warpgroups": {"BLOCK_T": 16, "w13": gemm(2, 4), "w2": gemm(2, 4, split=2)},
    "32 or 8": {"BLOCK_T": 32, "w13": gemm(4, 4, 8, maxnreg=96, REGISTERS=112), "w2": gemm(2, 4, 8)},
    "64 or 16": {"BLOCK_T": 64, "w13": gemm(2, 4, 16), "w2": gemm(2, 4, 16)},
    "128 or 32": {"BLOCK_T": 128, "w13": gemm(2, 3, 32), "w2": gemm(2, 3, 32)},
    "256 or 64": {"BLOCK_T": 256, "w13": gemm(2, 2, 64), "w2": gemm(1, 2, 64)},
}


def operands(tokens, experts, top_k, hidden, intermediate, bias=True):
    generator = torch.Generator().manual_seed(tokens + hidden)

    def weights(rows, columns):
        codes = torch.randint(0, 256, (experts, rows, columns // 2), dtype=torch.uint8, generator=generator)
        return codes, torch.randint(119, 123, (experts, rows, columns // 32), dtype=torch.uint8, generator=generator)

    x = torch.randn(tokens, hidden, generator=generator).bfloat16()
    shares = torch.rand(tokens, top_k, generator=generator)
    # Some experts get many tokens, some none.
    chances = torch.rand(experts, generator=generator) ** 4
    ids = torch.stack([torch.multinomial(chances, top_k, generator=generator) for _ in range(tokens)]).int()
    given = (x, shares, ids, *weights(2 * intermediate, hidden), *weights(hidden, intermediate))
    biases = [torch.randn(experts, rows, generator=generator).cuda() for rows in (2 * intermediate, hidden)]
    return tuple(tensor.cuda() for tensor in given), biases if bias else [None, None]


def error(got, want):
    return (torch.linalg.vector_norm(got.double() - want.double()) / torch.linalg.vector_norm(want.double())).item()


SIZES = [(1, 4, 4, 64, 32), (9, 5, 2, 320, 96), (300, 6, 3, 288, 480), (700, 3, 1, 512, 256)]


@on_hopper
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("activation", [SWIGLU_OAI, SILU], ids=lambda activation: activation.name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_plain_torch(sizes, activation, way, card):
    given, (w13_bias, w2_bias) = operands(*sizes, bias=sizes[0] % 2 == 1)
    want = mxfp4_moe(*given, w13_bias=w13_bias, w2_bias=w2_bias, activation=activation, emulate=True)
    first, again = (card.mxfp4_moe(*given, w13_bias, w2_bias, activation, None, sizes[-1], WAYS[way]) for _ in range(2))
    assert error(first, want) < 8e-3
    assert torch.equal(first, again)


@on_hopper
@pytest.mark.parametrize("way", WAYS)
def test_experts_of_other_ranks_and_ids_of_none(way, card):
    given, biases = operands(50, 6, 2, 288, 160)
    expert_map = torch.tensor([-1, 0, 1, -1, 2, 3], dtype=torch.int32).cuda()
    want = mxfp4_moe(*given, w13_bias=biases[0], w2_bias=biases[1], expert_map=expert_map, emulate=True)
    got = card.mxfp4_moe(*given, *biases, SWIGLU_OAI, expert_map, 160, WAYS[way])
    assert error(got, want) < 8e-3
    x, shares, ids, *weights = given
    missing = torch.where(ids == 1, -1, ids)
    got = card.mxfp4_moe(x, shares, missing, *weights, *biases, SWIGLU_OAI, None, 160, WAYS[way])
    want = mxfp4_moe(x, torch.where(ids == 1, 0, shares), ids, *weights, w13_bias=biases[0], w2_bias=biases[1],
                     emulate=True)  # fmt: skip
    assert error(got, want) < 8e-3


@on_hopper
@pytest.mark.parametrize("way", WAYS)
def test_a_token_s_bits_do_not_depend_on_its_neighbours(way, card):
    """The same tokens alone in a small tile, and at the end of an expert's many, beside ones that are no numbers."""
    given, biases = operands(600, 2, 1, 256, 128)
    x, shares, ids, *weights = given
    ids = torch.zeros_like(ids)
    lonely = ids.clone()
    lonely[:-5] = 1
    spoiled = x.clone()
    spoiled[:-5] = float("nan")
    many = card.mxfp4_moe(spoiled, shares, ids, *weights, *biases, SWIGLU_OAI, None, 128, WAYS[way])[-5:]
    few = card.mxfp4_moe(x, shares, lonely, *weights, *biases, SWIGLU_OAI, None, 128, WAYS[way])[-5:]
    assert many.isfinite().all() and torch.equal(many, few)


@on_hopper
@pytest.mark.parametrize("size", [8, 128])
def test_every_code_of_element_and_scale(size, card):
    """A row for each scale code, its elements all codes; x picks one element at a time, so that each shows alone."""
    weight = torch.arange(256, dtype=torch.uint8).repeat(256, 1)[:, :16].contiguous()
    weight[:, :8] = torch.arange(8, dtype=torch.uint8) * 34 + 16
    scale = torch.arange(256, dtype=torch.uint8)[:, None]
    x, ids = torch.eye(32).bfloat16().cuda(), torch.zeros(32, 1, dtype=torch.int32).cuda()
    inner = torch.empty(32, 128, dtype=torch.bfloat16, device="cuda")
    rows, sorted_ = card.sort_and_gather(x, ids, None, 1, inner, 32, size, early=True)
    out = torch.empty(1, 32, 256, device="cuda")
    card._grouped_gemm(rows, weight[None].cuda(), scale[None].cuda(), None, out, sorted_, 32, 256, None, gemm(2, 4))
    got, want = out[0].T.cpu(), mx.dequantize(weight, scale, torch.bfloat16).float()
    finite = slice(0, 253)  # beyond, elements overflow bf16, and a zero times infinity is not a number
    assert torch.equal(got[finite], want[finite])
    assert got[255].isnan().all()


@on_hopper
@pytest.mark.parametrize("entry", range(9))
def test_the_card_s_own_configurations(entry, card):
    """Every entry of the file, at gpt-oss's sizes."""
    file = json.loads((Path(configs.__file__).parent / "mxfp4_moe_hopper" / "sm_90.json").read_text())
    given, biases = operands((1, 2, 12, 30, 60, 150, 400, 900, 3000)[entry], 8, 4, 2880, 2880)
    want = mxfp4_moe(*given, w13_bias=biases[0], w2_bias=biases[1], emulate=True)
    got = card.mxfp4_moe(*given, *biases, SWIGLU_OAI, None, 2880, file["entries"][entry]["config"])
    assert error(got, want) < 8e-3


@on_hopper
def test_what_does_not_use_whole_blocks_goes_the_portable_way(card):
    given, biases = operands(20, 4, 2, 64, 96)
    assert not card.serves(64, 90, given[3], given[5])
    want = mxfp4_moe(*given, w13_bias=biases[0], w2_bias=biases[1], intermediate_pad=6, emulate=True)
    got = mxfp4_moe(*given, w13_bias=biases[0], w2_bias=biases[1], intermediate_pad=6)
    assert error(got, want) < 8e-3


def test_whole_blocks_and_aligned_weights_are_served(hopper):
    weight = torch.empty(1000, dtype=torch.uint8)
    aligned = weight[-weight.data_ptr() % 16 :]
    assert hopper.serves(64, 96, aligned) == hopper.gluon.AVAILABLE
    assert not hopper.serves(64, 96, aligned[8:])
    assert not hopper.serves(80, 96, aligned)
