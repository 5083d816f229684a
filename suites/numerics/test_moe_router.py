"""The router of an MoE: which experts it chooses, in which order, and their weights, against Python's own sorting."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.mxfp4_moe import mxfp4_moe, mxfp4_moe_from_logits

from .references import moe_operands
from .ways import by

ROUTERS = {
    "softmax over the chosen": Router(4),
    "softmax over all": Router(4, renormalize=False),
    "three of them, scaled": Router(3, scale=2.5),
    "one": Router(1, renormalize=False),
    "sigmoids": Router(3, "sigmoid", renormalize=False),
    "sigmoids by their sum": Router(4, "sigmoid", scale=2.5),
}
EVERY_ROUTER = pytest.mark.parametrize("router", ROUTERS.values(), ids=ROUTERS.keys())


def sigmoid(value):
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def answer(logits, router, correction=None):
    """(M, k) weights in float64 and experts, token by token."""
    weights, ids = [], []
    for row in logits.double().tolist():
        scores = [sigmoid(value) for value in row]
        if router.scores == "softmax":
            powers = [math.exp(value - max(row)) for value in row]
            scores = [power / sum(powers) for power in powers]
        by = row if correction is None else [score + c for score, c in zip(scores, correction.tolist(), strict=True)]
        chosen = sorted(range(len(row)), key=lambda expert: (-by[expert], expert))[: router.top_k]
        total = sum(scores[expert] for expert in chosen) if router.renormalize else 1
        ids.append(chosen)
        weights.append([scores[expert] / total * router.scale for expert in chosen])
    return torch.tensor(weights, dtype=torch.float64), torch.tensor(ids, dtype=torch.int32)


def drawn(tokens, experts, dtype=torch.float32, seed=0):
    return (3 * torch.randn(tokens, experts, generator=torch.Generator().manual_seed(seed))).to(dtype)


@EVERY_ROUTER
@pytest.mark.parametrize(
    ("tokens", "experts", "dtype"),
    [(1, 128, torch.float32), (7, 5, torch.bfloat16), (70, 32, torch.float16), (300, 384, torch.bfloat16)],
)
def test_equals_sorting(tokens, experts, dtype, router, path):
    """In bf16 and fp16 many logits are equal."""
    logits = drawn(tokens, experts, dtype)
    weights, ids = route(path.put(logits), router)
    want, chosen = answer(logits, router)
    assert weights.dtype == torch.float32 and ids.dtype == torch.int32
    assert torch.equal(ids.cpu(), chosen)
    assert torch.allclose(weights.cpu().double(), want, rtol=1e-5, atol=0)


@pytest.mark.parametrize("renormalize", [False, True])
def test_a_correction_chooses_and_does_not_weigh(renormalize, path):
    logits, router = drawn(50, 64), Router(6, "sigmoid", renormalize, 2.5)
    correction = torch.linspace(1, -1, 64)[torch.randperm(64, generator=torch.Generator().manual_seed(1))]
    weights, ids = route(path.put(logits), router, path.put(correction))
    want, chosen = answer(logits, router, correction)
    assert torch.equal(ids.cpu(), chosen) and not torch.equal(chosen, answer(logits, router)[1])
    assert torch.allclose(weights.cpu().double(), want, rtol=1e-5, atol=0)


def test_of_equal_ones_the_lower_id_comes_first(path):
    logits = torch.tensor([[0.0, -0.0, 1.0, 0.0, 1.0, -0.0], [-0.0, 0.0, -1.0, -1.0, -2.0, 0.0]])
    assert route(path.put(logits), Router(5))[1].tolist() == [[2, 4, 0, 1, 3], [0, 1, 5, 2, 3]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, in the interpreter
def test_what_is_no_number_counts_as_the_largest(path):
    nan, inf = float("nan"), float("inf")
    logits = torch.tensor([[1.0, 2.0, nan, 3.0], [1.0, -nan, 5.0, nan], [1.0, 2.0, -inf, 3.0], [1.0, 2.0, 0.0, 3.0]])
    firsts = [[2, 3], [1, 3], [3, 1], [3, 1]]
    for router in (Router(2), Router(2, renormalize=False), Router(2, "sigmoid")):
        weights, ids = route(path.put(logits), router)
        assert ids.tolist() == firsts
        assert weights[:2].isnan().all() and weights[2:].isfinite().all()
    weights, _ = route(path.put(logits), Router(2, "sigmoid", renormalize=False))
    assert weights.isnan().tolist() == [[True, False], [True, True], [False, False], [False, False]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, in the interpreter
def test_infinities(path):
    """Without weight where a logit is -inf; with no weight at all sigmoids give 0, and a softmax is none."""
    inf = float("inf")
    logits = torch.tensor([[-inf, 1.0, -inf], [-inf, -inf, -inf], [0.0, inf, 1.0]])
    weights, ids = route(path.put(logits), Router(2))
    assert ids.tolist() == [[1, 0], [0, 1], [1, 2]]
    assert weights[0].tolist() == [1, 0] and weights[1:].isnan().any(1).all()
    weights, _ = route(path.put(logits), Router(2, "sigmoid"))
    assert weights[:2].tolist() == [[1, 0], [0, 0]] and weights[2].isfinite().all()


def test_a_token_does_not_depend_on_the_others(path):
    """Nor on how many there are, but for rounding."""
    logits = path.put(drawn(40, 96))
    weights, ids = route(logits, Router(4))
    for token in (0, 17, 39):
        alone, chosen = route(logits[token : token + 1], Router(4))
        assert torch.equal(chosen[0], ids[token]) and torch.allclose(alone[0], weights[token], rtol=1e-6, atol=0)


def test_no_tokens(path):
    weights, ids = route(path.put(drawn(0, 8)), Router(3))
    assert weights.shape == ids.shape == (0, 3)


@given(st.data())
def test_equals_sorting_where_logits_are_often_equal(data):
    """In plain torch."""
    experts = data.draw(st.integers(1, 12), "experts")
    values = st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.5, 3.0])
    logits = torch.tensor([data.draw(st.lists(values, min_size=experts, max_size=experts), "logits")])
    router = Router(data.draw(st.integers(1, experts)), data.draw(st.sampled_from(["softmax", "sigmoid"])))
    weights, ids = route(logits, router)
    want, chosen = answer(logits, router)
    assert torch.equal(ids, chosen) and torch.allclose(weights.double(), want, rtol=1e-5)


BAD = {
    "three dimensions": (lambda: route(drawn(2, 4)[None], Router(2)), r"logits: got 3 dimensions, expected two"),
    "integers": (lambda: route(drawn(2, 4).int(), Router(2)), r"logits: got torch.int32, expected torch.float32"),
    "transposed": (lambda: route(drawn(4, 4).t(), Router(2)), r"logits: got strides .*, expected a contiguous"),
    "too many": (lambda: route(drawn(2, 4), Router(5)), r"router.top_k: got 5, expected 1 to 4"),
    "none": (lambda: route(drawn(2, 4), Router(0)), r"router.top_k: got 0, expected 1 to 4"),
    "unknown scores": (lambda: route(drawn(2, 4), Router(2, "tanh")), r"router.scores: got 'tanh', expected one of"),
    "corrected softmax": (
        lambda: route(drawn(2, 4), Router(2), torch.zeros(4)), r"correction: got a tensor, expected None"),
    "short correction": (
        lambda: route(drawn(2, 4), Router(2, "sigmoid"), torch.zeros(3)), r"correction: got shape \(3,\), expected"),
    "correction in bf16": (
        lambda: route(drawn(2, 4), Router(2, "sigmoid"), torch.zeros(4).bfloat16()),
        r"correction: got torch.bfloat16, expected torch.float32"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@by("torch")
def test_bad_arguments_are_named(case, path):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


# Tokens, experts and top_k: chosen where rows are gathered, and by a launch of its own.
SIZES = [(1, 128, 4), (5, 6, 3), (16, 64, 8), (90, 32, 4)]


@pytest.mark.parametrize("with_map", [False, True])
@pytest.mark.parametrize(("tokens", "experts", "top_k"), SIZES)
def test_the_moe_from_logits(tokens, experts, top_k, with_map, path):
    """What the MoE gives for the experts and weights that sorting gives."""
    call = moe_operands(tokens, experts, top_k, bias=True)
    logits, router = drawn(tokens, experts), Router(top_k, "sigmoid", scale=2.0)
    correction = torch.linspace(-0.3, 0.3, experts)
    expert_map = torch.arange(experts).int()
    expert_map[1::3] = -1
    weights = {name: value for name, value in call.items() if name[0] == "w"}
    more = {"expert_map": path.put(expert_map)} if with_map else {}
    given = path.put({"x": call["x"], **weights})
    got = mxfp4_moe_from_logits(
        **given, logits=path.put(logits), router=router, correction=path.put(correction), **more
    )
    topk_weights, topk_ids = answer(logits, router, correction)
    chosen = path.put({"topk_weights": topk_weights.float(), "topk_ids": topk_ids})
    want = mxfp4_moe(**given, **chosen, **more)
    assert torch.allclose(got.float(), want.float(), rtol=8e-3, atol=1e-5 * want.abs().max().item())


def test_the_moe_from_logits_without_tokens(path):
    call = path.put(moe_operands(3))
    weights = {name: value for name, value in call.items() if name[0] == "w"}
    got = mxfp4_moe_from_logits(call["x"][:0], path.put(drawn(0, 5)), Router(2), **weights)
    assert got.shape == (0, 64)


@pytest.mark.parametrize(
    ("logits", "message"),
    [(drawn(4, 6), r"logits: got shape \(4, 6\), expected \(4, 5\)"),
     (drawn(3, 5), r"logits: got shape \(3, 5\), expected \(4, 5\)")],
)  # fmt: skip
def test_logits_of_other_tokens_or_experts(logits, message, path):
    call = path.put(moe_operands(4))
    weights = {name: value for name, value in call.items() if name[0] == "w"}
    with pytest.raises(ValueError, match=message):
        mxfp4_moe_from_logits(call["x"], path.put(logits), Router(2), **weights)
