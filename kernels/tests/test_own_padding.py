"""What lies in a checkpoint's own padding, by the libraries that are given padded weights."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers.checkpoint import ExpertWeights
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

from . import deep_gemm_stand_in, humming_stand_in

# DeepGEMM gives its columns in bf16, which now and then rounds an activation to the neighbouring FP8 number.
LIBRARIES = [
    pytest.param(deep_gemm_stand_in, "deep_gemm", "sm_100", "DEEPGEMM_MXFP4", "fp8", 2e-2, id="deep_gemm"),
    pytest.param(humming_stand_in, "humming", "sm_90", "HUMMING", "bf16", 1e-2, id="humming"),
]


@pytest.mark.parametrize("activation", [SILU, SWIGLU_OAI], ids=["silu", "swigluoai"])
@pytest.mark.parametrize(("stand_in", "library", "arch", "backend", "activation_format", "bound"), LIBRARIES)
def test_it_adds_nothing(
    stand_in, library, arch, backend, activation_format, bound, activation, here, experts, monkeypatch
):
    stand_in.install(monkeypatch)
    here("cuda", arch, (library,))
    e = experts(inner=128, hidden=256)
    x = e.x[:, :160].contiguous()
    given = {"activation_format": activation_format, "hidden_pad": 96, "intermediate_pad": 32}
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(256, 128, "deepseek-v4", activation.name, **given), 3)
    assert method.decision.name == backend and (method.intermediate_size, method.hidden_size) == (128, 256)
    layer = torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale))
    method.process_weights_after_loading(layer)
    got = method.apply(layer, x, e.topk_weights, e.topk_ids)
    want = mxfp4_moe(
        x, e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale, activation=activation, **given
    )
    assert got.shape == (7, 160) and got.isfinite().all()
    assert (got.float() - want.float()).norm() / want.float().norm() < bound
