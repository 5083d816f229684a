"""Our call of torch's scaled_mm, with a stand-in that checks what ATen's ScaledBlas.cpp checks on Hopper."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from blockscale.layers.fp8_linear import BlockFp8Linear
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem


@pytest.fixture
def calls(monkeypatch):
    seen = []

    def scaled_mm(
        mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
        output_dtype=torch.bfloat16, contraction_dim=(), use_fast_accum=False,
    ):  # fmt: skip
        (M, K), N = mat_a.shape, mat_b.shape[1]
        blocks = -(-K // 128)
        padded = blocks + -blocks % 4
        assert scale_recipe_a is functional.ScalingType.BlockWise1x128
        assert scale_recipe_b is functional.ScalingType.BlockWise128x128
        assert M % 4 == 0 and K % 16 == 0 and N % 16 == 0 and not use_fast_accum
        assert mat_a.is_contiguous() and mat_b.t().is_contiguous()
        assert {mat_a.dtype, mat_b.dtype} == {torch.float8_e4m3fn} and output_dtype == torch.bfloat16
        assert scale_a.dtype == torch.float32 and tuple(scale_a.shape) == (M, blocks)
        assert scale_a.stride(0) == 1 and (scale_a.stride(1) == M or blocks == 1)
        assert scale_b.dtype == torch.float32 and tuple(scale_b.shape) == (padded, -(-N // 128))
        assert scale_b.stride(0) == 1 and (scale_b.stride(1) == padded or scale_b.shape[1] == 1)
        seen.append((M, N, K))
        a = mat_a.float() * scale_a.repeat_interleave(128, 1)[:, :K]
        b = mat_b.float() * scale_b[:blocks].repeat_interleave(128, 0)[:K].repeat_interleave(128, 1)[:, :N]
        return (a @ b).to(output_dtype)

    monkeypatch.setattr(functional, "scaled_mm", scaled_mm)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    return seen


@pytest.mark.parametrize(("n", "k"), [(144, 128), (256, 640), (2112, 1024)])
@pytest.mark.parametrize("rows", [0, 1, 8, 13])
def test_a_linear_layer_by_scaled_mm(here, calls, n, k, rows):
    here("cuda", "sm_90")
    generator = torch.Generator().manual_seed(n)
    scheme, layer = BlockFp8Linear(Fp8BlockGemmProblem(n, k)), torch.nn.Module()
    assert scheme.decision.name == "TORCH_SCALED_MM"
    scheme.create_weights(layer)
    layer.weight.copy_(torch.randn(n, k, generator=generator))
    layer.weight_scale.copy_(torch.rand(layer.weight_scale.shape, generator=generator) + 0.5)
    spread = layer.weight_scale.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    weight = layer.weight.float() * spread
    scheme.process_weights_after_loading(layer)
    x = torch.randn(2, rows, k, generator=generator).bfloat16()
    got = scheme.apply(layer, x, bias=torch.ones(n, dtype=torch.bfloat16))
    assert got.shape == (2, rows, n) and got.dtype == torch.bfloat16
    assert calls == ([(-(-2 * rows // 4) * 4, n, k)] if rows else [])
    if rows:
        want = x.float() @ weight.T + 1
        assert (got.float() - want).norm() / want.norm() < 0.05


@pytest.mark.parametrize(
    ("installed", "want"), [((), "TORCH_SCALED_MM"), (("triton",), "TRITON"), (("triton", "deep_gemm"), "DEEP_GEMM")]
)
def test_it_comes_after_triton_and_before_plain_torch(here, calls, installed, want):
    here("cuda", "sm_90", installed)
    assert BlockFp8Linear(Fp8BlockGemmProblem(4096, 7168)).decision.name == want


def test_other_output_types(here, calls):
    here("cuda", "sm_90")
    scheme, layer = BlockFp8Linear(Fp8BlockGemmProblem(128, 128)), torch.nn.Module()
    scheme.create_weights(layer)
    scheme.process_weights_after_loading(layer)
    assert scheme.apply(layer, torch.zeros(3, 128, dtype=torch.float16)).dtype == torch.float16


@pytest.mark.parametrize(
    ("arch", "built", "problem", "reason"),
    [
        ("sm_100", "13.0", {}, "It needs sm_90, and this is sm_100."),
        ("sm_90", "12.8", {}, "It needs a torch for CUDA 12.9 or newer, and this one is for 12.8."),
        ("sm_90", "12.9", {"block_k": 64}, "It takes blocks of 128 x 128, and these are 128 x 64."),
        ("sm_90", "12.9", {"n": 200}, "It needs N in 16s and K in 128s, and they are 200 and 7168."),
        ("sm_90", "12.9", {"k": 7200}, "It needs N in 16s and K in 128s, and they are 4096 and 7200."),
        ("sm_90", "13.0", {"e8m0_scales": True}, "It is called with fp32 scales, and these are e8m0."),
    ],
)
def test_where_it_cannot_serve(here, monkeypatch, arch, built, problem, reason):
    here("cuda", arch)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(ValueError, match="TORCH_SCALED_MM") as error:
        BlockFp8Linear(Fp8BlockGemmProblem(**{"n": 4096, "k": 7168} | problem), "TORCH_SCALED_MM")
    assert str(error.value).endswith(reason)
