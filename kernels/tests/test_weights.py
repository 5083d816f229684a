"""Weight conversion: which backend gets which layout, and that the gfx1250 probe is asked for AITER alone."""

from __future__ import annotations

import pytest
import torch

from blockscale.layouts import aiter, deepgemm, gate_up, gfx1250
from blockscale.oracle.mxfp4_moe import weights
from blockscale.oracle.mxfp4_moe.weights import KernelTensor, convert_weight_to_mxfp4_moe_kernel_format
from blockscale.platforms import rocm

E, INNER, H = 2, 64, 128


def checkpoint():
    generator = torch.Generator().manual_seed(0)
    shapes = [(E, 2 * INNER, H // 2), (E, H, INNER // 2), (E, 2 * INNER, H // 32), (E, H, INNER // 32)]
    tensors = [torch.randint(0, 256, shape, generator=generator).to(torch.uint8) for shape in shapes]
    return [*tensors, torch.randn(E, 2 * INNER), torch.randn(E, H)]


@pytest.mark.parametrize("backend", ["XPU", "EMULATION"])
def test_kept_as_they_are(here, backend):
    here("xpu")
    given = checkpoint()
    got = convert_weight_to_mxfp4_moe_kernel_format(backend, *given)
    assert [got.w13, got.w2, got.w13_scale, got.w2_scale, got.w13_bias, got.w2_bias] == given


def test_deepgemm_packs_scales_and_keeps_weights(here):
    here("cuda", "sm_100")
    given = checkpoint()
    got = convert_weight_to_mxfp4_moe_kernel_format("DEEPGEMM_MXFP4", *given)
    assert got.w13 is given[0] and got.w2 is given[1]
    assert got.w13_scale.dtype == torch.int32
    assert torch.equal(deepgemm.unpack_scale(got.w13_scale, H // 32), given[2])


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("backend", ["AITER_MXFP4_BF16", "AITER_MXFP4_MXFP4"])
def test_aiter_off_gfx1250_shuffles(here, backend, interleaved):
    here("rocm", "gfx950")
    w13, w2, w13_scale, w2_scale, w13_bias, w2_bias = checkpoint()
    got = convert_weight_to_mxfp4_moe_kernel_format(
        backend, w13, w2, w13_scale, w2_scale, w13_bias, w2_bias, interleaved=interleaved
    )
    halves = gate_up.interleaved_to_halves(w13) if interleaved else w13
    assert torch.equal(aiter.unshuffle_w13(got.w13), halves)
    assert torch.equal(aiter.MOE_WEIGHT.unshuffle(got.w2, H, INNER // 2), w2)
    scale_halves = gate_up.interleaved_to_halves(w13_scale) if interleaved else w13_scale
    assert torch.equal(aiter.unshuffle_w13_scale(got.w13_scale, 2 * INNER, H // 32), scale_halves)
    assert torch.equal(aiter.SCALE.unshuffle(got.w2_scale, H, INNER // 32), w2_scale)
    if interleaved:
        assert torch.equal(got.w13_bias[:, :INNER], w13_bias[:, 0::2])


@pytest.mark.parametrize(("backend", "arch"), [("TRITON", "gfx950"), ("AITER_MXFP4_BF16", "gfx1250")])
def test_wrapped_with_precision_configs(here, backend, arch):
    here("rocm", arch)
    w13, w2, w13_scale, w2_scale, *biases = checkpoint()
    got = convert_weight_to_mxfp4_moe_kernel_format(backend, w13, w2, w13_scale, w2_scale, *biases)
    assert isinstance(got.w13, KernelTensor) and got.w13.shape == w13.shape and not hasattr(got.w13, "detach")
    assert got.w13_scale is None and got.w2_scale is None
    scale = got.w13_precision.weight_scale
    assert scale.shape == w13_scale.shape
    want = w13_scale if backend == "TRITON" else gfx1250.N32K4.shuffle(w13_scale)
    assert torch.equal(scale.data, want) and scale.layout == ("strided" if backend == "TRITON" else "gfx1250 n32k4")


@pytest.mark.parametrize("backend", ["TRITON", "DEEPGEMM_MXFP4", "XPU", "CPU", "EMULATION", "AITER_MXFP4_MXFP4"])
def test_the_gfx1250_probe_is_not_asked_for_others(here, monkeypatch, backend):
    here("rocm", "gfx1250")
    monkeypatch.setattr(rocm, "on_gfx1250", lambda: pytest.fail("the probe was asked"))
    convert_weight_to_mxfp4_moe_kernel_format(backend, *checkpoint())


@pytest.mark.parametrize("platform", ["cuda", "xpu", "cpu"])
def test_off_rocm_nobody_asks_rocm(here, monkeypatch, platform):
    here(platform)
    monkeypatch.setattr(rocm, "on_gfx1250", lambda: pytest.fail("the probe was asked"))
    assert not weights._on_gfx1250()


def test_unknown_backend(here):
    here("cpu")
    with pytest.raises(ValueError, match="backend: got 'MARLIN', expected one whose layout is known"):
        convert_weight_to_mxfp4_moe_kernel_format("MARLIN", *checkpoint())
