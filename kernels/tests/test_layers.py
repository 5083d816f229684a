"""Layers on every platform: loaded from checkpoints in each naming, they give the answer of the plain weights."""

from __future__ import annotations

import sys
import types

import pytest
import torch

from blockscale.formats import fp8, mx
from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant
from blockscale.kernels.swiglu import SILU, SWIGLU_OAI
from blockscale.layers import checkpoint
from blockscale.layers.fp8_linear import BlockFp8Linear
from blockscale.layers.mxfp4_moe import Mxfp4MoEMethod
from blockscale.layers.quark_ocp_mx import QuarkOCP_MX
from blockscale.layouts import aiter
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem

E, INNER, H = 3, 96, 160
ALL = ("triton", "aiter", "deep_gemm", "humming")
PLATFORMS = pytest.mark.parametrize(
    ("platform", "arch"),
    [("cuda", "sm_90"), ("cuda", "sm_75"), ("cuda", "sm_120"), ("rocm", "gfx942"), ("rocm", "gfx950"),
     ("rocm", "gfx1250"), ("xpu", None), ("cpu", None)],
)  # fmt: skip


def gpt_oss_file(generator, layer=3):
    def bytes_(*shape, low=0, high=256):
        return torch.randint(low, high, shape, generator=generator).to(torch.uint8)

    prefix = f"model.layers.{layer}.mlp.experts."
    return {
        f"{prefix}gate_up_proj_blocks": bytes_(E, 2 * INNER, H // 32, 16),
        f"{prefix}gate_up_proj_scales": bytes_(E, 2 * INNER, H // 32, low=119, high=123),
        f"{prefix}gate_up_proj_bias": torch.randn(E, 2 * INNER, generator=generator).bfloat16(),
        f"{prefix}down_proj_blocks": bytes_(E, H, INNER // 32, 16),
        f"{prefix}down_proj_scales": bytes_(E, H, INNER // 32, low=119, high=123),
        f"{prefix}down_proj_bias": torch.randn(E, H, generator=generator).bfloat16(),
    }


def deepseek_file(generator, layer=1):
    tensors = {}
    for expert in range(E):
        for name, rows, columns in (("w1", INNER, H), ("w3", INNER, H), ("w2", H, INNER)):
            prefix = f"layers.{layer}.ffn.experts.{expert}.{name}"
            weight = torch.randint(0, 256, (rows, columns // 2), generator=generator).to(torch.uint8)
            scale = torch.randint(119, 123, (rows, columns // 32), generator=generator).to(torch.uint8)
            tensors[f"{prefix}.weight"], tensors[f"{prefix}.scale"] = weight.view(torch.int8), scale
    return tensors


def tokens(count=7):
    generator = torch.Generator().manual_seed(5)
    ids = torch.stack([torch.randperm(E, generator=generator)[:2] for _ in range(count)])
    return torch.randn(count, H, generator=generator).bfloat16(), torch.rand(count, 2, generator=generator), ids


def set_up(method, weights):
    layer = torch.nn.Module()
    method.create_weights(layer, has_bias=weights.w13_bias is not None)
    method.load_weights(layer, weights)
    method.process_weights_after_loading(layer)
    return layer


@PLATFORMS
@pytest.mark.parametrize("family", ["gpt-oss", "deepseek-v4"])
def test_a_small_checkpoint_gives_the_plain_answer_everywhere(here, tmp_path, monkeypatch, platform, arch, family):
    safetensors = pytest.importorskip("safetensors.torch")
    here(platform, arch, ALL)
    monkeypatch.setenv("BLOCKSCALE_USE_HUMMING", "0")  # its own call is tested beside its stand-in
    generator = torch.Generator().manual_seed(0)
    if family == "gpt-oss":
        safetensors.save_file(gpt_oss_file(generator), tmp_path / "model.safetensors")
        weights, activation = checkpoint.gpt_oss_experts(checkpoint.read(tmp_path), 3), SWIGLU_OAI
    else:
        safetensors.save_file(deepseek_file(generator), tmp_path / "model.safetensors")
        weights, activation = checkpoint.deepseek_v4_experts(checkpoint.read(tmp_path), 1), SILU
    problem = Mxfp4MoEProblem(H, INNER, family, activation.name)
    method = Mxfp4MoEMethod(problem, E)
    layer = set_up(method, weights)
    x, topk_weights, topk_ids = tokens()
    want = mxfp4_moe(
        x, topk_weights, topk_ids, weights.w13, weights.w13_scale, weights.w2, weights.w2_scale,
        w13_bias=weights.w13_bias, w2_bias=weights.w2_bias, activation=activation,
    )  # fmt: skip
    got = method.apply(layer, x, topk_weights, topk_ids)
    assert torch.equal(got, want)
    quant = method.get_fused_moe_quant_config(layer)
    assert (quant.hidden_pad, quant.intermediate_pad) == (method.hidden_size - H, method.intermediate_size - INNER)
    if platform == "rocm":
        assert method.hidden_size == 256 and quant.hidden_pad == 96


def test_wrapped_tensors_are_assigned_and_not_made_parameters(here):
    here("cuda", "sm_90", ALL)
    method = Mxfp4MoEMethod(Mxfp4MoEProblem(H, INNER), E)
    layer = set_up(method, checkpoint.gpt_oss_experts(gpt_oss_file(torch.Generator().manual_seed(0)), 3))
    assert method.decision.name == "TRITON"
    assert "w13_weight" not in dict(layer.named_parameters()) and layer.w13_weight.shape == (E, 2 * 128, H // 2)
    assert layer.w13_weight_scale is None and layer.w13_precision_config.weight_scale.shape == (E, 2 * 128, H // 32)


@pytest.fixture
def fused_moe(monkeypatch):
    """A stand-in AITER whose fused_moe unshuffles what it gets and runs the plain kernel on it."""
    seen = {}
    enum = types.SimpleNamespace

    def call(hidden_states, w1, w2, topk_weight, topk_ids, expert_mask=None, activation=None, quant_type=None,
             w1_scale=None, w2_scale=None, hidden_pad=0, intermediate_pad=0, bias1=None, bias2=None):  # fmt: skip
        seen.update(hidden_pad=hidden_pad, intermediate_pad=intermediate_pad, activation=activation, mask=expert_mask)
        w1, w2, w1_scale, w2_scale = (t.view(torch.uint8) for t in (w1, w2, w1_scale, w2_scale))
        rows, hidden = w1.shape[1], w2.shape[1]
        return mxfp4_moe(
            hidden_states, topk_weight, topk_ids, aiter.unshuffle_w13(w1),
            aiter.unshuffle_w13_scale(w1_scale, rows, hidden // 32),
            aiter.MOE_WEIGHT.unshuffle(w2, hidden, rows // 4), aiter.SCALE.unshuffle(w2_scale, hidden, rows // 64),
            w13_bias=bias1, w2_bias=bias2, activation=SWIGLU_OAI_IN_HALVES,
        )  # fmt: skip

    package, module = types.ModuleType("aiter"), types.ModuleType("aiter.fused_moe")
    package.ActivationType, package.QuantType = enum(Swiglu="swiglu", Silu="silu"), enum(per_1x32="1x32")
    module.fused_moe = call
    monkeypatch.setitem(sys.modules, "aiter", package)
    monkeypatch.setitem(sys.modules, "aiter.fused_moe", module)
    return seen


SWIGLU_OAI_IN_HALVES = type(SWIGLU_OAI)("swigluoai", interleaved=False, alpha=1.702, limit=7.0, shift=1.0)


def test_aiter_gets_shuffled_weights_and_the_padding(here, fused_moe):
    """hidden_pad and intermediate_pad reach the kernel, and its padded answer is cut."""
    here("rocm", "gfx950", ALL)
    problem = Mxfp4MoEProblem(256, 256, hidden_pad=256 - H, intermediate_pad=256 - INNER)
    method = Mxfp4MoEMethod(problem, E)
    assert method.decision.name == "AITER_MXFP4_BF16"
    weights = checkpoint.gpt_oss_experts(gpt_oss_file(torch.Generator().manual_seed(0)), 3)
    layer = set_up(method, weights)
    x, topk_weights, topk_ids = tokens()
    got = method.apply(layer, x, topk_weights, topk_ids)
    want = mxfp4_moe(
        x, topk_weights, topk_ids, weights.w13, weights.w13_scale, weights.w2, weights.w2_scale,
        w13_bias=weights.w13_bias, w2_bias=weights.w2_bias,
    )  # fmt: skip
    assert got.shape == (7, H)
    assert (got.float() - want.float()).norm() / want.float().norm() < 5e-3
    assert (fused_moe["hidden_pad"], fused_moe["intermediate_pad"]) == (256 - H, 256 - INNER)
    torch.compiler.reset()
    compiled = torch.compile(lambda x: method.apply(layer, x, topk_weights, topk_ids), fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), got)
    assert fused_moe["activation"] == "swiglu" and fused_moe["mask"] is None


def test_unfused_and_emulated_agree_with_fused(here):
    generator = torch.Generator().manual_seed(0)
    weights = checkpoint.gpt_oss_experts(gpt_oss_file(generator), 3)
    answers = []
    for backend in ("TRITON", "TRITON_UNFUSED", "EMULATION"):
        here("rocm", "gfx942", ALL)
        method = Mxfp4MoEMethod(Mxfp4MoEProblem(H, INNER), E, backend)
        answers.append(method.apply(set_up(method, weights), *tokens()))
    assert torch.equal(answers[0], answers[1]) and torch.equal(answers[0], answers[2])


@pytest.mark.parametrize(("platform", "arch", "backend"), [("cpu", None, "CPU"), ("cuda", "sm_90", "TRITON")])
@pytest.mark.parametrize("with_map", [False, True])
def test_a_layer_from_logits(here, experts, platform, arch, backend, with_map):
    """What it gives for the experts that its router chooses, by the backend's own way from logits and by any other."""
    here(platform, arch, ALL)
    e, method, layer = experts(experts=4), Mxfp4MoEMethod(Mxfp4MoEProblem(160, 96), 4, backend), torch.nn.Module()
    method.create_weights(layer)
    method.load_weights(layer, checkpoint.ExpertWeights(e.w13, e.w13_scale, e.w2, e.w2_scale, None, None))
    method.process_weights_after_loading(layer)
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    expert_map = torch.tensor([2, -1, 0, 1]) if with_map else None
    router, correction = Router(2, "sigmoid"), torch.tensor([0.0, 0.5, -0.5, 0.1])
    got = method.apply_from_logits(layer, e.x, logits, router, correction, expert_map)
    want = method.apply(layer, e.x, *route(logits, router, correction), expert_map)
    assert torch.equal(got, want)
    assert not torch.equal(got, method.apply_from_logits(layer, e.x, logits, router, None, expert_map))


def test_checkpoints_that_lack_something():
    tensors = gpt_oss_file(torch.Generator().manual_seed(0))
    with pytest.raises(KeyError, match=r"model\.layers\.4\.mlp\.experts\.gate_up_proj_blocks is not in the checkpoint"):
        checkpoint.gpt_oss_experts(tensors, 4)
    tensors = deepseek_file(torch.Generator().manual_seed(0))
    del tensors["layers.1.ffn.experts.2.w3.scale"]
    with pytest.raises(KeyError, match=r"layers\.1\.ffn\.experts\.2\.w3\.scale is not in the checkpoint"):
        checkpoint.deepseek_v4_experts(tensors, 1)
    with pytest.raises(KeyError, match=r"layers\.7\.ffn\.experts\.0\.w1\.weight is not in"):
        checkpoint.deepseek_v4_experts(tensors, 7)


def test_weights_of_other_sizes(here):
    here("cpu")
    weights = checkpoint.gpt_oss_experts(gpt_oss_file(torch.Generator().manual_seed(0)), 3)
    for problem, experts, message in (
        (Mxfp4MoEProblem(H, INNER), E + 1, "weights: got 3 experts, expected 4"),
        (Mxfp4MoEProblem(H, 32), E, r"tensor: got shape \(3, 192, 80\), expected at most \(..., 64, 80\)"),
    ):
        method, layer = Mxfp4MoEMethod(problem, experts), torch.nn.Module()
        method.create_weights(layer)
        with pytest.raises(ValueError, match=message):
            method.load_weights(layer, weights)


@PLATFORMS
def test_quark_ocp_mx(here, platform, arch):
    here(platform, arch, ("triton",))
    generator = torch.Generator().manual_seed(1)
    weight, scale = mx.quantize(torch.randn(48, 96, generator=generator))
    x = torch.randn(2, 5, 96, generator=generator).bfloat16()
    bias = torch.randn(48, generator=generator).bfloat16()
    scheme, layer = QuarkOCP_MX(48, 96), torch.nn.Module()
    scheme.create_weights(layer)
    layer.weight.copy_(weight)
    layer.weight_scale.copy_(scale)
    scheme.process_weights_after_loading(layer)
    want = gemm_with_dynamic_quant(x, weight, scale) + bias
    assert torch.equal(scheme.apply_weights(layer, x, bias), want)


def test_quark_shuffles_for_aiter(here):
    here("rocm", "gfx950", ALL)
    scheme, layer = QuarkOCP_MX(64, 256), torch.nn.Module()
    assert scheme.decision.name == "AITER"
    scheme.create_weights(layer)
    layer.weight.copy_(torch.randint(0, 256, (64, 128)))
    plain = layer.weight.clone()
    scheme.process_weights_after_loading(layer)
    assert torch.equal(aiter.WEIGHT.unshuffle(layer.weight, 64, 128), plain)
    assert layer.weight_scale.shape == (256, 8)


@PLATFORMS
@pytest.mark.parametrize("e8m0", [False, True])
def test_block_fp8_linear(here, platform, arch, e8m0):
    here(platform, arch, ("triton",))
    generator = torch.Generator().manual_seed(2)
    problem = Fp8BlockGemmProblem(200, 300, e8m0_scales=e8m0)
    scheme, layer = BlockFp8Linear(problem), torch.nn.Module()
    scheme.create_weights(layer)
    weight = torch.randn(200, 300, generator=generator)
    weight[0, 0] = -0.0
    layer.weight.copy_(weight)
    layer.weight_scale.copy_(torch.tensor([[0.5, 1, 2], [4, 0.25, 1]]))
    scale = layer.weight_scale.float().repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300]
    dequantized = layer.weight.float() * scale
    scheme.process_weights_after_loading(layer)
    own = torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn
    assert layer.weight.dtype == (torch.bfloat16 if platform == "cpu" else own)
    x = torch.randn(3, 2, 300, generator=generator).bfloat16()
    got = scheme.apply(layer, x, bias=torch.ones(200, dtype=torch.bfloat16)).float() - 1
    want = x.float() @ dequantized.T
    assert got.isfinite().all() and (got - want).norm() / want.norm() < 0.05


def test_block_fp8_linear_by_deepgemm(here, monkeypatch):
    here("cuda", "sm_90", ALL)
    seen = []
    stand_in = types.ModuleType("deep_gemm")
    stand_in.get_mn_major_tma_aligned_tensor = lambda scale: scale
    stand_in.fp8_gemm_nt = lambda a, b, out, disable_ue8m0_cast: (
        seen.append((a[0].shape, a[1].shape, b[1].shape, disable_ue8m0_cast)) or out.fill_(2.0)
    )
    monkeypatch.setitem(sys.modules, "deep_gemm", stand_in)
    from blockscale.platforms import Arch, current

    monkeypatch.setattr(type(current.resolve()), "device_arch", lambda self, device: Arch.parse("sm_90"))
    scheme, layer = BlockFp8Linear(Fp8BlockGemmProblem(128, 256)), torch.nn.Module()
    scheme.create_weights(layer)
    out = scheme.apply(layer, torch.randn(2, 3, 256).bfloat16())
    assert out.shape == (2, 3, 128) and (out == 2).all()
    assert seen == [((6, 256), (6, 2), (1, 2), True)]
    assert fp8.largest(layer.weight.dtype) == 448


def test_deepseeks_names():
    """w1 are gates and come first, w3 are ups, w2 goes down."""
    tensors = deepseek_file(torch.Generator().manual_seed(0))
    weights = checkpoint.deepseek_v4_experts(tensors, 1)
    prefix = "layers.1.ffn.experts.2."
    for part, got in (("w1", weights.w13[2, :INNER]), ("w3", weights.w13[2, INNER:]), ("w2", weights.w2[2])):
        assert torch.equal(got, tensors[f"{prefix}{part}.weight"].view(torch.uint8))
    assert torch.equal(weights.w13_scale[2, INNER:], tensors[f"{prefix}w3.scale"])


def test_gpt_osss_blocks_are_joined():
    tensors = gpt_oss_file(torch.Generator().manual_seed(0))
    weights = checkpoint.gpt_oss_experts(tensors, 3)
    blocks = tensors["model.layers.3.mlp.experts.down_proj_blocks"]
    assert weights.w2.shape == (E, H, INNER // 2) and torch.equal(weights.w2[1, 2, 16:32], blocks[1, 2, 1])
