"""Our formats beside ml_dtypes, gfloat and torchao: every code, every bf16 value, and blocks, rounding by rounding.

Where a library differs from the standard or from another one, the difference is stated here and asserted.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blockscale.formats import e2m1, e8m0, fp8, mx
from blockscale.formats.mx import E2M1, E4M3FN, ScaleRounding

np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
gfloat = pytest.importorskip("gfloat", reason="gfloat is not installed")

from gfloat import formats as gf  # noqa: E402

CODES = np.arange(256, dtype=np.uint8)
ALL_BF16 = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
FINITE = ALL_BF16.float()[ALL_BF16.isfinite()]

# gfloat has no fnuz formats of its own, but describes them: AMD's flavour is bias 8, one NaN (in place of -0), no inf.
E4M3FNUZ = gfloat.FormatInfo(
    "e4m3fnuz", 8, 4, bias=8, is_signed=True, domain=gfloat.Domain.Finite, has_nz=False, num_high_nans=0,
    has_subnormals=True, is_twos_complement=False,
)  # fmt: skip

FORMATS = {  # ml_dtypes' type, gfloat's description
    torch.float8_e4m3fn: (ml_dtypes.float8_e4m3fn, gf.format_info_ocp_e4m3),
    torch.float8_e4m3fnuz: (ml_dtypes.float8_e4m3fnuz, E4M3FNUZ),
    torch.float8_e5m2: (ml_dtypes.float8_e5m2, gf.format_info_ocp_e5m2),
}


def same(left, right):
    """Equal as float64 bit for bit, all NaN being one."""
    with np.errstate(invalid="ignore"):
        left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    both_nan = np.isnan(left) & np.isnan(right)
    return bool(((left == right) & (np.signbit(left) == np.signbit(right)) | both_nan).all())


def decoded_by_gfloat(info, count):
    return [gfloat.decode_float(info, code).fval for code in range(count)]


@pytest.mark.parametrize("dtype", FORMATS)
def test_fp8_codes(dtype):
    ml_type, info = FORMATS[dtype]
    ours = torch.from_numpy(CODES.copy()).view(dtype).float().numpy()
    assert same(ours, CODES.view(ml_type))
    assert same(ours, decoded_by_gfloat(info, 256))


def test_e8m0_codes():
    ours = e8m0.decode(torch.from_numpy(CODES.copy())).numpy()
    assert same(ours, CODES.view(ml_dtypes.float8_e8m0fnu).astype(np.float64))
    assert same(ours, decoded_by_gfloat(gf.format_info_ocp_e8m0, 256))


def test_e2m1_codes():
    ours = e2m1.decode(torch.arange(16)).numpy()
    assert same(ours, CODES[:16].view(ml_dtypes.float4_e2m1fn).astype(np.float64))
    assert same(ours, decoded_by_gfloat(gf.format_info_ocp_e2m1, 16))


def test_e2m1_encodes_every_bf16():
    x = torch.cat([FINITE, torch.tensor([float("inf"), -float("inf")])])
    ours = e2m1.encode(x)
    assert np.array_equal(ours.numpy(), x.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8))
    rounded = gfloat.round_ndarray(gf.format_info_ocp_e2m1, x.numpy().astype(np.float64), sat=True)
    assert same(e2m1.decode(ours).numpy(), rounded)


@pytest.mark.parametrize("dtype", FORMATS)
def test_fp8_encodes_every_bf16(dtype):
    """ml_dtypes overflows to NaN or infinity, so it is asked only within the range; gfloat saturates as we do."""
    ml_type, info = FORMATS[dtype]
    ours = fp8.encode(FINITE, dtype)
    inside = (FINITE.abs() <= fp8.largest(dtype)).numpy()
    assert np.array_equal(ours.view(torch.uint8).numpy()[inside], FINITE.numpy().astype(ml_type).view(np.uint8)[inside])
    rounded = gfloat.round_ndarray(info, FINITE.numpy().astype(np.float64), sat=True)
    if dtype == torch.float8_e4m3fnuz:
        rounded = rounded + 0.0  # no -0
    assert same(ours.float().numpy(), rounded)


TORCHAO_DTYPE = {E2M1: torch.float4_e2m1fn_x2, E4M3FN: torch.float8_e4m3fn}


@pytest.fixture(scope="module")
def to_mx():
    """torchao's quantization: scales (float8_e8m0fnu) and elements of x, by one of our roundings and formats.

    Imported when a test asks for it, without its extensions: they are for CUDA, and it complains where that is not. A
    torchao that is installed and lacks this is an error, not a skip.
    """
    if importlib.util.find_spec("torchao") is None:
        pytest.skip("torchao is not installed")
    with mock.patch.dict(os.environ, TORCHAO_FORCE_SKIP_LOADING_SO_FILES="1"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")

    def quantize(x, rounding, element=E2M1):
        return theirs.to_mx(x.contiguous(), TORCHAO_DTYPE[element], 32, theirs.ScaleCalculationMode(rounding.value))

    return quantize


def agrees_with_torchao(to_mx, x, rounding, element):
    """Compare block by block: all scales, and elements where the scale is above 2^-127.

    At code 0 torchao stores 2^-127 but divides by another number (see `test_where_torchao_differs`).
    """
    scale, elements = to_mx(x, rounding, element)
    our_elements, our_scale = mx.quantize(x, rounding, element)
    scale, elements = scale.view(torch.uint8).view(our_scale.shape), elements.view(torch.uint8)
    finite = x.float().unflatten(-1, (-1, 32)).isfinite().all(-1)
    assert torch.equal(our_scale[finite], scale[finite])
    ours = our_elements.view(torch.uint8).unflatten(-1, (scale.shape[-1], -1))
    theirs = elements.reshape(ours.shape)
    compared = finite & (our_scale > 0)
    assert torch.equal(ours[compared], theirs[compared])
    return int(compared.sum())


EVERY = pytest.mark.parametrize("rounding", ScaleRounding)
ELEMENTS = pytest.mark.parametrize("element", [E2M1, E4M3FN], ids=lambda element: element.name)


@EVERY
@ELEMENTS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_every_bf16_value_in_blocks(to_mx, rounding, element, dtype):
    """In the order of their codes, neighbours share a block; shuffled, all magnitudes meet."""
    shuffled = ALL_BF16[torch.randperm(65536, generator=torch.Generator().manual_seed(0))]
    alone = torch.zeros(65536, 32, dtype=torch.bfloat16)
    alone[:, 5] = ALL_BF16
    assert agrees_with_torchao(to_mx, ALL_BF16.view(64, 1024).to(dtype), rounding, element) > 1900
    agrees_with_torchao(to_mx, shuffled.view(64, 1024).to(dtype), rounding, element)
    assert agrees_with_torchao(to_mx, alone.to(dtype), rounding, element) > 60000


@EVERY
@ELEMENTS
@given(seed=st.integers(0, 2**31), spread=st.floats(0, 12), ties=st.booleans())
def test_random_blocks(to_mx, seed, spread, ties, rounding, element):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 128, generator=generator)
    x = (x * 8).round() / 8 if ties else x * torch.exp2(spread * torch.randn(8, 128, generator=generator))
    agrees_with_torchao(to_mx, x, rounding, element)


@EVERY
@ELEMENTS
def test_edges(to_mx, rounding, element):
    """All-zero, -0, subnormal, smallest normal and largest finite blocks."""
    x = torch.zeros(8, 32)
    x[1] = -0.0
    x[2, :3] = torch.tensor([1e-45, -1e-40, 1e-39])
    x[3, 0] = 2.0**-126
    x[4, 0] = 3.4028234663852886e38
    x[5, 0] = -3.4028234663852886e38
    x[6] = torch.linspace(-1, 1, 32) * 2.0**-120
    x[7] = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] * 4)
    assert agrees_with_torchao(to_mx, x, rounding, element) >= 3


@EVERY
@ELEMENTS
def test_largest_magnitudes_an_ulp_around_where_the_scale_changes(to_mx, rounding, element):
    """bf16 has no number so near to a threshold: those of e2m1 and e4m3 lie at 1, 1.5, 1.75 and 1.9375."""
    middle = torch.tensor([1.0, 1.5, 1.75, 1.9375])
    near = torch.stack([middle.nextafter(torch.tensor(0.0)), middle, middle.nextafter(torch.tensor(4.0))]).flatten()
    x = torch.zeros(12, 32)
    x[:, 9] = near * 2.0**5
    assert agrees_with_torchao(to_mx, x, rounding, element) == 12


@EVERY
def test_where_torchao_differs(to_mx, rounding):
    """NaN: both mark the block. Infinity: torchao keeps a scale that is a number. Code 0: torchao loses its elements,
    since it divides by 2^-126, and in RCEIL by 1, where the stored scale says 2^-127."""
    x = torch.zeros(3, 32)
    x[0, 3], x[1, 3], x[2, :2] = float("nan"), float("inf"), torch.tensor([2.0**-125, 2.0**-128])
    scale, elements = to_mx(x, rounding)
    our_elements, our_scale = mx.quantize(x, rounding)
    theirs = scale.view(torch.uint8).flatten().tolist()
    assert our_scale.flatten().tolist() == [255, 255, 0]
    assert theirs[0] == 255 and theirs[1] in (253, 254) and theirs[2] == 0
    assert e2m1.unpack(our_elements)[2, :2].tolist() == [6, 1]  # 4 and 0.5 times 2^-127: exact
    kept = 0 if rounding is ScaleRounding.RCEIL else 4  # nothing, or 2 * 2^-127, which is half
    assert e2m1.unpack(elements.view(torch.uint8))[2, :2].tolist() == [kept, 0]


def test_gfloat_blocks_by_the_standards_own_rule():
    """gfloat's MXFP4 block code with its amax rule is FLOOR."""
    x = torch.randn(20, 32, generator=torch.Generator().manual_seed(3))
    packed, scale = mx.quantize(x, ScaleRounding.FLOOR)
    back = mx.dequantize(packed, scale)
    for row in range(20):
        values = x[row].double().numpy()
        exponent = gfloat.compute_scale_amax(2, values)
        assert exponent == 2.0 ** (scale[row].item() - 127)
        rounded = gfloat.round_ndarray(gf.format_info_ocp_e2m1, values / exponent, sat=True) * exponent
        assert same(back[row].numpy(), rounded)
