"""A backend is one file: its place, what it requires, its padding, its layout and its call."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

from blockscale.layers.fp8_linear import BlockFp8Linear
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.oracle import selection
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

MOE = """
from blockscale.layouts.padding import Padding
from blockscale.oracle import requirements
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.weights import Mxfp4MoEWeights

def convert(w13, w2, w13_scale, w2_scale, w13_bias, w2_bias, interleaved):
    return Mxfp4MoEWeights(w13.flip(0), w2, w13_scale, w2_scale)

def run(x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, **named):
    return x * 0 + w13[0, 0, 0] + named["hidden_pad"]

BACKEND = MoEBackend(
    "MINE", {"": 1}, (requirements.platform("cpu"),), lambda problem: Padding(128, 512), run=run, convert=convert
)
"""
FP8 = """
from blockscale.oracle import requirements
from blockscale.oracle.fp8_block_gemm.backend import Fp8Backend

def run(A, B, As, Bs, block_size, dtype):
    return A.to(dtype)[..., :1].expand(*A.shape[:-1], Bs.shape[1]) * 0 + block_size[0]

BACKEND = Fp8Backend(
    "MINE", {"": 1}, (requirements.platform("cpu"),), run=run, convert=lambda weight, scale, _: (weight, scale.t())
)
"""


@pytest.fixture
def add(monkeypatch, tmp_path):
    """Puts a file beside an oracle's backends."""

    def add_(family, text):
        package = importlib.import_module(f"blockscale.oracle.{family}")
        (tmp_path / "mine.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        selection.backends_in.cache_clear()
        monkeypatch.delitem(sys.modules, f"{package.__name__}.mine", raising=False)

    yield add_
    selection.backends_in.cache_clear()


def test_of_the_moe(here, add):
    here("cpu")
    add("mxfp4_moe", MOE)
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(256, 64), 2)
    assert method.decision.name == "MINE" and (method.intermediate_size, method.hidden_size) == (128, 512)
    layer = torch.nn.Module()
    method.create_weights(layer)
    layer.w13_weight[1] = 7
    method.process_weights_after_loading(layer)
    got = method.apply(layer, torch.zeros(3, 256), torch.ones(3, 2), torch.zeros(3, 2, dtype=torch.int64))
    assert got.tolist() == torch.full((3, 256), 7.0 + 256).tolist()
    here("xpu")
    assert Mxfp4MoEMethod(Mxfp4MoEProblem(256, 64), 2).decision.name == "EMULATION"


def test_of_the_fp8_block_gemm(here, add):
    here("cpu")
    add("fp8_block_gemm", FP8)
    scheme, layer = BlockFp8Linear(Fp8BlockGemmProblem(256, 384)), torch.nn.Module()
    scheme.create_weights(layer)
    scheme.process_weights_after_loading(layer)
    assert scheme.decision.name == "MINE" and layer.weight_scale.shape == (3, 2)
    assert scheme.apply(layer, torch.zeros(5, 384)).tolist() == torch.full((5, 2), 128.0).tolist()
