"""The formats on a device: every code, and every bf16 value in every mode, as the CPU has them, bit for bit."""

from __future__ import annotations

import pytest
import torch

from blockscale.formats import e2m1, e8m0, fp8, mx
from blockscale.layouts import aiter, blackwell, cublas, deepgemm, gate_up, gfx1250, hopper

from .calls import same_bits
from .ways import by

pytestmark = by("device")

CODES = torch.arange(256, dtype=torch.uint8)
EVERY_BF16 = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)


def blocks():
    """Every bf16 value among its neighbours, among strangers, and alone in a block of zeros."""
    strangers = EVERY_BF16[torch.randperm(65536, generator=torch.Generator().manual_seed(0))]
    alone = torch.zeros(65536, 32, dtype=torch.bfloat16)
    alone[:, 7] = EVERY_BF16
    return {"neighbours": EVERY_BF16.view(64, 1024), "strangers": strangers.view(64, 1024), "alone": alone}


def numbers(tensor):
    """On the CPU, each NaN as one: which NaN it is, no format says."""
    tensor = tensor.cpu()
    return torch.where(tensor.isnan(), torch.full((), torch.nan, dtype=tensor.dtype), tensor)


def agree(function, *given, path):
    """The same bits on the device as on the CPU, for floats but for which NaN."""
    got, want = function(*path.put(given)), function(*given)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for on_device, here in pairs:
        assert on_device.device.type == path.device.type
        on_device = on_device.cpu()
        if here.dtype.is_floating_point and here.itemsize > 1:
            on_device, here = numbers(on_device), numbers(here)
        elif here.dtype in fp8.DTYPES:
            on_device, here = numbers(on_device.float()), numbers(here.float())
        assert same_bits((on_device,), (here,))


def test_every_code_is_decoded(path):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        agree(lambda codes, dtype=dtype: e2m1.decode(codes & 15, dtype), CODES, path=path)
    agree(e8m0.decode, CODES, path=path)
    agree(lambda codes: e2m1.pack(e2m1.unpack(codes)), CODES, path=path)
    for dtype in fp8.DTYPES:
        agree(lambda codes, dtype=dtype: codes.view(dtype).float(), CODES, path=path)


def test_every_bf16_is_encoded(path):
    for dtype in (torch.bfloat16, torch.float32):
        agree(e2m1.encode, EVERY_BF16.to(dtype), path=path)
    for dtype in fp8.DTYPES:
        agree(lambda x, dtype=dtype: fp8.encode(x, dtype), EVERY_BF16, path=path)


@pytest.mark.parametrize("element", [mx.E2M1, mx.E4M3FN], ids=lambda element: element.name)
@pytest.mark.parametrize("rounding", mx.ScaleRounding)
def test_every_bf16_in_every_mx_mode(rounding, element, path):
    for x in blocks().values():
        agree(lambda x: mx.quantize(x, rounding, element), x, path=path)
        agree(lambda x: mx.dequantize(*mx.quantize(x, rounding, element), torch.bfloat16), x, path=path)


@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.float8_e8m0fnu])
@pytest.mark.parametrize("dtype", fp8.DTYPES)
def test_every_bf16_in_every_group_mode(dtype, scale_dtype, path):
    for x in blocks().values():
        agree(lambda x: fp8.quantize_groups(x, 32, dtype, scale_dtype), x, path=path)


LAYOUTS = {
    "aiter weight": aiter.WEIGHT, "aiter moe weight": aiter.MOE_WEIGHT, "aiter scale": aiter.SCALE,
    "blackwell scale": blackwell.SCALE, "gfx1250 n32k4": gfx1250.N32K4, "gfx1250 128x4": gfx1250.ATOM_128X4,
    "hopper 4 warps": hopper.scale(4), "hopper 8 warps": hopper.scale(8),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout(layout, path):
    plain = torch.arange(3 * 200 * 130).to(torch.uint8).view(3, 200, 130)
    agree(layout.shuffle, plain, path=path)
    assert torch.equal(layout.unshuffle(layout.shuffle(path.put(plain)), 200, 130).cpu(), plain)


def test_the_other_layouts(path):
    rows = torch.arange(2 * 192 * 128).to(torch.uint8).view(2, 192, 128)
    for function in (
        gate_up.interleaved_to_halves,
        gate_up.halves_to_interleaved,
        aiter.shuffle_w13,
        deepgemm.pack_scale,
    ):
        agree(function, rows, path=path)
    agree(cublas.block_scale, torch.rand(3, 5), path=path)
