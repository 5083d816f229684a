"""MXFP4 MoE against a float64 loop over tokens: activations, biases, padding, expert parallelism, bad arguments."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blockscale.kernels import configs
from blockscale.kernels.moe_routing import sort_into_tiles
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI

from .references import moe_answer, moe_operands, relative_error
from .ways import by

ACTIVATIONS = pytest.mark.parametrize("activation", [SWIGLU_OAI, SILU], ids=lambda activation: activation.name)


@ACTIVATIONS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("tokens", "experts", "top_k", "hidden", "intermediate"),
    [(1, 4, 4, 32, 32), (9, 5, 2, 64, 96), (3, 32, 1, 160, 32), (70, 3, 3, 32, 64)],
)
def test_equals_float64(tokens, experts, top_k, hidden, intermediate, bias, activation, path):
    call = moe_operands(tokens, experts, top_k, hidden, intermediate, bias=bias)
    got = mxfp4_moe(**path.put(call), activation=activation)
    assert got.shape == (tokens, hidden) and got.dtype == torch.bfloat16
    assert relative_error(got, moe_answer(**call, activation=activation)) < 1e-2


CONFIGS = [
    {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32},
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
]


@ACTIVATIONS
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@by("interpreter", "device")
def test_every_way_to_tile(config, activation, path, monkeypatch):
    """Of the kernel for all archs; Hopper's own has its ways in its own test."""
    monkeypatch.setattr(configs, "choose", lambda *_: dict(config))
    monkeypatch.setattr("blockscale.kernels.mxfp4_moe._suits_hopper", lambda *_: False)
    call = moe_operands(40, 3, 2, 96, 64, bias=True)
    got = mxfp4_moe(**path.put(call), activation=activation)
    assert relative_error(got, moe_answer(**call, activation=activation)) < 1e-2


@ACTIVATIONS
def test_padding_is_not_read(activation, path):
    """Padded weights whose padding is NaN give what the weights without padding give."""
    call = moe_operands(7, 4, 2, 64, 60 + 4, bias=True)
    hidden, intermediate, hidden_pad, intermediate_pad = 64, 60, 32, 36
    small = {name: value for name, value in call.items() if name[0] == "w"}
    padded = {}
    for name, tensor in small.items():
        is_w13, is_bias = name.startswith("w13"), name.endswith("bias")
        columns_in_one = 1 if is_bias else 32 if name.endswith("scale") else 2
        rows = 2 * (intermediate + intermediate_pad) if is_w13 else hidden + hidden_pad
        columns = (hidden + hidden_pad if is_w13 else intermediate + intermediate_pad) // columns_in_one
        shape = (4, rows) if is_bias else (4, rows, columns)
        wide = torch.full(shape, float("nan") if is_bias else 255, dtype=tensor.dtype)
        used_columns = -(-(hidden if is_w13 else intermediate) // columns_in_one)
        if not is_w13:
            places, sources = slice(0, hidden), slice(0, hidden)
        elif activation.interleaved:
            places = sources = slice(0, 2 * intermediate)
        else:
            each = torch.arange(intermediate)
            places, sources = torch.cat([each, each + 96]), torch.cat([each, each + 64])
        if is_bias:
            wide[:, places] = tensor[:, sources]
        else:
            wide[:, places, :used_columns] = tensor[:, sources][..., :used_columns]
        padded[name] = wide
    given = path.put({name: call[name] for name in ("x", "topk_weights", "topk_ids")} | padded)
    got = mxfp4_moe(**given, activation=activation, hidden_pad=hidden_pad, intermediate_pad=intermediate_pad)
    want = mxfp4_moe(**path.put(call), activation=activation, intermediate_pad=4)
    assert got.shape == (7, 64)
    assert torch.equal(got, want)


def test_experts_of_other_ranks(path):
    """Two ranks' answers add up to one rank's; a token all of whose experts are elsewhere gives zero."""
    call = moe_operands(12, 6, 2, bias=True)
    whole = moe_answer(**call)
    parts = []
    for mine in (range(0, 6, 2), range(1, 6, 2)):
        expert_map = torch.full((6,), -1, dtype=torch.int32)
        expert_map[list(mine)] = torch.arange(3, dtype=torch.int32)
        local = {name: value[list(mine)] if name[0] == "w" else value for name, value in call.items()}
        part = mxfp4_moe(**path.put(local), expert_map=path.put(expert_map)).cpu()
        elsewhere = (expert_map[call["topk_ids"].long()] < 0).all(1)
        assert elsewhere.any() and (part[elsewhere] == 0).all()
        parts.append(part.double())
    assert relative_error(parts[0] + parts[1], whole) < 1e-2


@pytest.mark.parametrize(("activation_format", "bound"), [("mxfp8", 0.06), ("fp8", 0.06)])
def test_rounded_activations(activation_format, bound, path):
    """Three mantissa bits in each GEMM's activations: near the exact answer, and not equal to bf16's."""
    call = moe_operands(20, 4, 2, 96, 64)
    got = mxfp4_moe(**path.put(call), activation_format=activation_format)
    assert 0.01 < relative_error(got, moe_answer(**call)) < bound


def test_no_tokens(path):
    call = moe_operands(3)
    none = {name: value[:0] if name in ("x", "topk_weights", "topk_ids") else value for name, value in call.items()}
    assert mxfp4_moe(**path.put(none)).shape == (0, 64)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, in the interpreter
def test_a_token_that_is_no_number_spoils_only_itself(path):
    call = moe_operands(6)
    call["x"][2, 5], call["x"][4, 5] = float("nan"), float("inf")
    got = mxfp4_moe(**path.put(call))
    assert got[2].isnan().all() and got[[0, 1, 3, 5]].isfinite().all()


@given(st.data())
def test_tiles_hold_each_assignment_once(data):
    experts = data.draw(st.integers(1, 9), "experts")
    size = data.draw(st.sampled_from([1, 4, 16]), "size")
    tokens, top_k = data.draw(st.integers(1, 20), "tokens"), data.draw(st.integers(1, 4), "top_k")
    local = torch.tensor(data.draw(st.lists(
        st.lists(st.integers(-1, experts - 1), min_size=top_k, max_size=top_k), min_size=tokens, max_size=tokens,
    )))  # fmt: skip
    tiles = sort_into_tiles(local, experts, size)
    seen = []
    for expert, rows in zip(tiles.experts.tolist(), tiles.rows.view(-1, size).tolist(), strict=True):
        held = [row for row in rows if row < local.numel()]
        assert all(local.flatten()[row] == expert for row in held)
        assert (expert == experts) == (not held), "a tile is used if and only if it holds rows"
        seen += held
    assert sorted(seen) == (local.flatten() >= 0).nonzero().flatten().tolist()


BAD = {
    "x is fp32": (lambda c: c.update(x=c["x"].float()), r"x: got torch.float32, expected torch.bfloat16"),
    "x too wide": (lambda c: c.update(x=c["x"].repeat(1, 2)), r"x: got shape \(4, 128\), expected \(M, 64\)"),
    "weights of other tokens": (lambda c: c.update(topk_weights=c["topk_weights"][:2]), r"topk_weights: got shape \(2"),
    "ids are floats": (lambda c: c.update(topk_ids=c["topk_ids"].float()), r"topk_ids: got torch.float32, expected"),
    "w13 is w2": (lambda c: c.update(w13=c["w2"]), r"w13: got shape \(5, 64, 48\), expected shape \(5, 192, 32\)"),
    "scale of w2 cut": (lambda c: c.update(w2_scale=c["w2_scale"][..., :2]), r"w2_scale: got shape \(5, 64, 2\)"),
    "w2 is int8": (lambda c: c.update(w2=c["w2"].view(torch.int8)), r"w2: got torch.int8, expected torch.uint8"),
    "bias of one expert": (lambda c: c.update(w2_bias=torch.zeros(64)), r"w2_bias: got shape \(64,\), .*\(5, 64\)"),
    "odd pad": (lambda c: c.update(intermediate_pad=1), r"intermediate_pad: got 1, expected an even"),
    "all is pad": (lambda c: c.update(hidden_pad=64), r"hidden_pad: got 64, expected an even number from 0 to 62"),
    "unknown format": (lambda c: c.update(activation_format="int8"), r"activation_format: got 'int8', expected one of"),
    "no expert at all": (
        lambda c: c.update(topk_ids=c["topk_ids"][:, :0]), r"topk_ids: got shape \(4, 0\), expected at least one"),
}  # fmt: skip


UNASKED = {  # of a device, whose stream would stall
    "id too large": (lambda c: c["topk_ids"].fill_(5), r"topk_ids: got ids from 5 to 5, expected ids from 0 to 4"),
    "id negative": (lambda c: c["topk_ids"].fill_(-1), r"topk_ids: got ids from -1 to -1, expected ids from 0 to 4"),
    "map to no expert": (
        lambda c: c.update(expert_map=torch.tensor([0, 1, 2, 3, 7])),
        r"expert_map: got local ids from 0 to 7, expected -1, or 0 to 4"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNASKED)
@by("torch", "interpreter")
def test_what_only_a_cpu_is_asked(case, path):
    raises(*UNASKED[case], path)


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case, path):
    raises(*BAD[case], path)


def raises(spoil, message, path):
    call = moe_operands(4)
    spoil(call)
    with pytest.raises(ValueError, match=message):
        mxfp4_moe(**path.put(call))


def test_the_limit_is_felt(path):
    """Gates above 7 and ups beyond 7 on both sides, where the clamps decide the answer."""
    call = moe_operands(8)
    call["x"] = call["x"] * 16
    unlimited = dataclasses.replace(SWIGLU_OAI, limit=None)
    want = moe_answer(**call)
    assert relative_error(mxfp4_moe(**path.put(call)), want) < 1e-2
    assert relative_error(mxfp4_moe(**path.put(call), activation=unlimited), want) > 0.5


@ACTIVATIONS
def test_the_other_ways_to_compute_it(activation, path):
    """The activation as a step of its own, and everything emulated; with padding, where rows must be picked."""
    call = moe_operands(15, hidden=64, intermediate=64, bias=True)
    want = mxfp4_moe(**path.put(call), activation=activation, intermediate_pad=10)
    for way in ({"fused": False}, {"emulate": True}):
        got = mxfp4_moe(**path.put(call), activation=activation, intermediate_pad=10, **way)
        assert relative_error(got, want.double()) < 8e-3
