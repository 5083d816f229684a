"""Hopper's FP8 block GEMM on a Hopper card, against float64; and what of it needs no card."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels import configs
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.platforms import Arch


@pytest.fixture
def hopper():
    """The launcher, where Triton is installed."""
    return pytest.importorskip("blockscale.kernels.triton.fp8_block_gemm_hopper_launch")


@pytest.fixture
def card(hopper):
    """The launcher, on a Hopper card: the marks below see to that."""
    assert hopper.gluon.AVAILABLE, "this Triton has no Gluon for Hopper, and every shape would go the portable way"
    return hopper


on_hopper = pytest.mark.cuda("sm_90")


SHAPES = [(1, 128, 128), (7, 130, 272), (16, 256, 384), (33, 127, 304), (130, 72, 64), (200, 300, 2064)]
SHAPES += [(385, 1000, 640), (1, 7168, 2048), (5, 1, 16), (300, 24, 16)]


def operands(m, n, k, scales=torch.float32, block=128):
    """Random operands whose scales differ by powers of two between blocks, so that a wrong scale shows."""
    generator = torch.Generator().manual_seed(m + n + k)
    a, b = (torch.randn(rows, k, generator=generator).to(torch.float8_e4m3fn) for rows in (m, n))
    blocks = -(-k // block)
    a_scale, b_scale = (
        torch.exp2(torch.randint(-3, 4, (rows, blocks), generator=generator).float()).to(scales)
        for rows in (m, -(-n // 128))
    )
    return tuple(tensor.cuda() for tensor in (a, b, a_scale, b_scale))


def float64_answer(a, b, a_scale, b_scale, block=128):
    k_block, n_block = torch.arange(b.shape[1]) // block, torch.arange(b.shape[0]) // 128
    a, b, a_scale, b_scale = (tensor.cpu().double() for tensor in (a, b, a_scale, b_scale))
    return (a * a_scale[:, k_block]) @ (b * b_scale[n_block][:, k_block]).T


def error(got, want):
    return (torch.linalg.vector_norm(got.cpu().double() - want) / torch.linalg.vector_norm(want)).item()


@on_hopper
@pytest.mark.parametrize("scales", [torch.float32, torch.float8_e8m0fnu])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_equals_float64(m, n, k, scales, card):
    given = operands(m, n, k, scales)
    assert card.serves(*given[:2], 128, 128)
    for dtype, limit in ((torch.bfloat16, 5e-3), (torch.float16, 5e-3), (torch.float32, 2e-3)):
        got = w8a8_triton_block_scaled_mm(*given, [128, 128], dtype)
        assert got.dtype == dtype and error(got, float64_answer(*given)) < limit


CONFIGS = [
    {"swap": swap, "WARPGROUPS": groups, "BLOCK_N": n, "GROUP_M": 3, "SPLIT_K": split, "STAGES": 3}
    for swap, groups, n, split in [
        (True, 2, 16, 3), (True, 1, 64, 1), (True, 2, 32, 5), (False, 2, 128, 1), (False, 1, 128, 2), (False, 2, 64, 1),
    ]
]  # fmt: skip
CONFIGS += [{**CONFIGS[3], "DEPTH": 4}, {**CONFIGS[4], "DEPTH": 4, "STAGES": 5}, {**CONFIGS[0], "DEPTH": 3}]


@on_hopper
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(70, 264, 1296), (1000, 2500, 400)])
def test_every_way_to_tile(m, n, k, config, card):
    """More tiles than programs at the second shape, so that programs go on to another tile."""
    given = operands(m, n, k)
    got = card.fp8_block_gemm(*given, 128, 128, torch.bfloat16, config)
    assert error(got, float64_answer(*given)) < 5e-3
    assert torch.equal(card.fp8_block_gemm(*given, 128, 128, torch.bfloat16, config), got)


@on_hopper
@pytest.mark.parametrize("scales", [torch.float32, torch.float8_e8m0fnu])
def test_a_last_row_of_tiles_is_split_along_k(scales, card):
    """The tiles past four rounds of 132."""
    config = {"swap": False, "WARPGROUPS": 2, "BLOCK_N": 128, "GROUP_M": 4, "most_splits": 1, "STAGES": 3}
    config["most_tail_splits"] = 8
    given = operands(4100, 2112, 7184, scales)
    assert card.rows_apart(33, 17, 57, card.multiprocessors(given[0].device), 8) == 2
    got = card.fp8_block_gemm(*given, 128, 128, torch.bfloat16, config)
    assert error(got, float64_answer(*given)) < 5e-3
    assert torch.equal(card.fp8_block_gemm(*given, 128, 128, torch.bfloat16, config), got)


@on_hopper
def test_scales_of_wider_blocks(card):
    given = operands(20, 200, 1024, block=256)
    got = w8a8_triton_block_scaled_mm(*given, [128, 256], torch.bfloat16)
    assert error(got, float64_answer(*given, block=256)) < 5e-3


@on_hopper
def test_what_no_descriptor_takes_goes_the_portable_way(card):
    given = operands(33, 127, 300)
    assert not card.serves(*given[:2], 128, 128)
    got = w8a8_triton_block_scaled_mm(*given, [128, 128], torch.bfloat16)
    assert error(got, float64_answer(*given)) < 5e-3


@pytest.mark.parametrize(
    ("tiles", "steps", "programs", "most", "want"),
    [(56, 128, 132, 8, 2), (132, 56, 132, 8, 1), (17, 56, 132, 8, 7), (1, 1, 132, 8, 1), (500, 64, 132, 1, 1)],
)
def test_shares_of_k_fill_the_card(tiles, steps, programs, most, want, hopper):
    assert hopper.even_split(tiles, steps, programs, most) == want


@pytest.mark.parametrize(
    ("tiles_m", "tiles_n", "steps", "want"),
    [
        (32, 17, 56, 1),
        (33, 17, 57, 2),
        (33, 17, 33, 0),
        (33, 4, 56, 0),
        (8, 144, 56, 0),
        (64, 64, 64, 0),
        (1, 17, 56, 0),
        (34, 4, 56, 1),
    ],
)
def test_rows_of_tiles_that_would_leave_programs_idle(tiles_m, tiles_n, steps, want, hopper):
    assert hopper.rows_apart(tiles_m, tiles_n, steps, 132, 8) == want


def test_a_file_of_another_card_is_passed_over_with_a_note(monkeypatch, caplog):
    caplog.set_level("INFO")
    for cached in (configs._find, configs._entries):
        cached.cache_clear()
    monkeypatch.setattr(configs, "_card", lambda arch: "NVIDIA H100 80GB HBM3")
    chosen = configs.choose("fp8_block_gemm_hopper", Arch.parse("sm_90"), 16, 7168, 18432)
    assert chosen == configs.choose("fp8_block_gemm_hopper", None, 16, 7168, 18432)
    assert "sm_90.json was found on NVIDIA H200 and is not used on NVIDIA H100 80GB HBM3" in caplog.text
    configs._find.cache_clear()
