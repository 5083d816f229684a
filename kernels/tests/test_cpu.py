"""The CPU path on hosts of either byte order."""

from __future__ import annotations

import sys

import pytest
import torch

from blockscale.formats import e2m1
from blockscale.kernels import cpu
from blockscale.kernels.mxfp4_moe import mxfp4_moe


def test_the_even_element_comes_first_on_every_host():
    """A word's halves lie in memory as the host's byte order has them: the other order's word has them exchanged."""
    packed = torch.arange(256, dtype=torch.uint8).view(4, 64)
    want = torch.stack([e2m1.decode(packed & 0xF), e2m1.decode(packed >> 4)], -1).flatten(-2)
    here, elsewhere = sys.byteorder, {"little": "big", "big": "little"}[sys.byteorder]
    assert torch.equal(values(packed, here), want)
    assert torch.equal(values(packed), want)
    exchanged = values(packed, elsewhere).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    assert torch.equal(exchanged, want)


def values(packed, *byteorder):
    memory = torch.empty(len(packed), packed.shape[1] * 2, dtype=torch.bfloat16)
    return cpu._e2m1_to_fp16(packed, memory, *byteorder).float() * 2**14


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
@pytest.mark.parametrize("exponent", [-149, -126, 0, 117, 118, 125])
def test_scales_at_the_ends_of_fp32(dtype, exponent):
    """Where scale and lift together leave fp32's range, the product does not."""
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    codes = codes[codes.float().isfinite()].view(1, -1)
    scale = torch.tensor([[2.0**exponent]])
    got = cpu.dequantize_fp8(codes, scale, 1, 256)
    assert torch.equal(got, (codes.float() * scale).bfloat16())


@pytest.mark.parametrize("emulate", [False, True])
def test_experts_take_activations_that_have_a_gradient(experts, emulate):
    """As a router's input has, outside of no_grad; the answer has none, as that of a device."""
    e = experts(bias=True)
    given = e.topk_weights, e.topk_ids, e.w13, e.w13_scale, e.w2, e.w2_scale
    want = mxfp4_moe(e.x, *given, w2_bias=e.w2_bias, emulate=emulate)
    got = mxfp4_moe(e.x.requires_grad_(), *given, w2_bias=e.w2_bias, emulate=emulate)
    assert torch.equal(got, want) and not got.requires_grad
