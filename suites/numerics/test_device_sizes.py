"""Sizes whose offsets pass 2^31 elements, and the most memory that a call takes beside its operands.

A card that has too little memory for a size is other hardware, and the test says so.
"""

from __future__ import annotations

import pytest
import torch

from blockscale.formats import fp8
from blockscale.kernels import configs
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant, triton_gemm

from .references import bound, fp8_answer, moe_answer, mx_answer, relative_error
from .ways import Way, by

pytestmark = pytest.mark.usefixtures("as_in_service")

LIMIT = 2**31
GB = 10**9
MIB = 2**20


@pytest.fixture(autouse=True)
def _memory_given_back():
    yield
    for runtime in (torch.cuda, torch.xpu):
        if runtime.is_initialized():
            runtime.empty_cache()


def needs(gigabytes, path):
    """Skip where the device has not that much memory, all that lives at a time."""
    properties = torch.get_device_module(path.device.type).get_device_properties(path.device)
    if properties.total_memory < gigabytes * GB * 1.25:
        has = f"{properties.name} with {properties.total_memory / GB:.0f} GB"
        pytest.skip(f"needs a device with {gigabytes * 1.25:.0f} GB; here: {has}")


def randoms(path, *shape, low=0, high=256):
    return torch.randint(low, high, shape, dtype=torch.uint8, device=path.device)


def gemm_operands(path, m, n, k):
    """Positive numbers below 2, so that no sum cancels out: codes that are numbers in both flavours."""

    def scales(rows):
        return torch.exp2(torch.randint(-3, 4, (rows, -(-k // 128)), device=path.device).float())

    a, b = (randoms(path, rows, k, high=0x40).view(path.fp8) for rows in (m, n))
    return a, b, scales(m), scales(-(-n // 128))


def ends(size, count=24):
    """The first rows and the last, beyond 2^31."""
    return torch.cat([torch.arange(count), torch.arange(size - count, size)])


def agrees(got, a, b, a_scale, b_scale, rows, columns, path):
    """Some rows and columns of a product that is too large to be made in float64."""
    rows, columns = rows.to(path.device), columns.to(path.device)
    left = a.view(torch.uint8)[rows].view(a.dtype)
    right = b.view(torch.uint8)[columns].view(b.dtype)
    few = path.exact((left, right, a_scale[rows], b_scale[columns // 128]))
    return relative_error(got[rows][:, columns], fp8_answer(*few, block=(1, 128))) < bound(torch.bfloat16, path)


def generic(path, a, b, a_scale, b_scale, **changes):
    """The kernel that every arch has."""
    from blockscale.kernels.triton import fp8_block_gemm as kernel

    config = configs.choose("fp8_block_gemm", None, a.shape[0], *b.shape) | changes
    return kernel.fp8_block_gemm(a, b, a_scale, b_scale, 128, 128, torch.bfloat16, config, False)


def chosen(path, a, b, a_scale, b_scale):
    return w8a8_triton_block_scaled_mm(a, b, a_scale, b_scale, [128, 128], torch.bfloat16)


LONG, WIDE = LIMIT // 16384 + 50, 16384
LARGE_GEMMS = {  # M, N, K
    "activations": (LONG, 150, WIDE),
    "weights": (5, LONG, WIDE),
    "outputs": (46400, 46400, 128),
}


@pytest.mark.parametrize("launch", [chosen, generic], ids=["chosen", "generic"])
@pytest.mark.parametrize("sizes", LARGE_GEMMS.values(), ids=LARGE_GEMMS.keys())
@by("device")
def test_fp8_gemm(sizes, launch, path):
    needs(7, path)
    m, n, k = sizes
    given = gemm_operands(path, m, n, k)
    got = launch(path, *given)
    assert agrees(got, *given, ends(m) if m > 48 else torch.arange(m), ends(n), path)


@pytest.mark.parametrize("changes", [{"SPLIT_K": 4}, {"swap": True}], ids=str)
@by("device")
def test_fp8_gemm_of_large_sums(changes, path):
    """Partial sums beyond 2^31, and an output that is written transposed."""
    size = 46400 if "swap" in changes else 23300
    needs(12, path)
    given = gemm_operands(path, size, size, 512)
    got = generic(path, *given, **changes)
    assert agrees(got, *given, ends(size), ends(size), path)


@pytest.mark.cuda("sm_90")
def test_hopper_gemm_of_large_sums(device):
    from blockscale.kernels.triton import fp8_block_gemm_hopper_launch as hopper

    path, size = Way("device", device), 33000
    given = gemm_operands(path, size, size, 512)
    config = {"swap": False, "WARPGROUPS": 2, "BLOCK_N": 128, "GROUP_M": 8, "SPLIT_K": 2, "STAGES": 4}
    got = hopper.fp8_block_gemm(*given, 128, 128, torch.bfloat16, config)
    assert agrees(got, *given, ends(size), ends(size), path)


@by("device")
def test_fp8_quantization(path):
    needs(8, path)
    x = torch.randn(LONG, WIDE, dtype=torch.bfloat16, device=path.device)
    elements, scale = per_token_group_quant_fp8(x, 128, path.fp8)
    rows = ends(LONG).to(path.device)
    want, want_scale = fp8.quantize_groups(x[rows], 128, path.fp8)
    assert torch.equal(elements.view(torch.uint8)[rows], want.view(torch.uint8))
    assert torch.equal(scale[rows], want_scale)


UNTUNED = {"BLOCK_N": 64, "BLOCK_M": 64, "BLOCK_K": 128, "GROUP_N": 8, "SPLIT_K": 1, "num_warps": 4, "num_stages": 2}


@pytest.mark.parametrize("config", [None, UNTUNED], ids=["chosen", "generic"])
@pytest.mark.parametrize(("m", "n"), [(LONG, 70), (5, 2 * LONG)], ids=["activations", "weights"])
@by("device")
def test_mx_linear(m, n, config, path):
    needs(14, path)
    x = torch.randn(m, WIDE, dtype=torch.bfloat16, device=path.device)
    weight, weight_scale = randoms(path, n, WIDE // 2), randoms(path, n, WIDE // 32, low=117, high=133)
    if config is None:
        got = gemm_with_dynamic_quant(x, weight, weight_scale)
    else:
        got = triton_gemm(x, weight, weight_scale, torch.bfloat16, None, False, config)
    rows = (ends(m) if m > 48 else torch.arange(m)).to(path.device)
    columns = ends(n).to(path.device)
    want = mx_answer(*path.exact((x[rows], weight[columns], weight_scale[columns])))
    assert relative_error(got[rows][:, columns], want) < bound(torch.bfloat16, path)


def moe_weights(path, experts, hidden, intermediate):
    return {
        "w13": randoms(path, experts, 2 * intermediate, hidden // 2),
        "w13_scale": randoms(path, experts, 2 * intermediate, hidden // 32, low=118, high=121),
        "w2": randoms(path, experts, hidden, intermediate // 2),
        "w2_scale": randoms(path, experts, hidden, intermediate // 32, low=118, high=121),
    }


@by("device")
def test_moe_of_large_weights(path):
    """More than 2^31 bytes of w13; tokens go to the last expert and to the first."""
    needs(6, path)
    experts, hidden, intermediate = 66, 8192, 4096
    weights = moe_weights(path, experts, hidden, intermediate)
    ids = torch.tensor([[65, 0], [0, 65], [65, 64]], device=path.device)
    x = torch.randn(3, hidden, device=path.device).bfloat16()
    shares = torch.rand(3, 2, device=path.device)
    got = mxfp4_moe(x, shares, ids, **weights)
    few = {name: tensor[[0, 64, 65]] for name, tensor in weights.items()}
    want = moe_answer(*path.exact((x, shares, torch.where(ids == 0, 0, ids - 63))), **path.exact(few))
    assert relative_error(got, want) < 1e-2


@by("device")
def test_moe_of_many_tokens(path):
    """More than 2^31 elements of rows, one for each token and expert of its own."""
    needs(9, path)
    tokens, top_k, hidden = 140000, 4, 4096
    weights = moe_weights(path, 5, hidden, 32)
    ids = torch.arange(tokens, device=path.device)[:, None] + torch.arange(top_k, device=path.device)
    x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device=path.device)
    shares = torch.rand(tokens, top_k, device=path.device)
    got = mxfp4_moe(x, shares, ids % 5, **weights)
    rows = ends(tokens).to(path.device)
    want = moe_answer(*path.exact((x[rows], shares[rows], ids[rows] % 5)), **path.exact(weights))
    assert relative_error(got[rows], want) < 1e-2


def peak(path, call):
    """The most bytes that a call holds at a time beside what was there before, its answer among them."""
    device = torch.get_device_module(path.device.type)
    call()  # compiles, and has cuBLAS take its workspace
    device.synchronize()
    device.empty_cache()
    before = device.memory_allocated()
    device.reset_peak_memory_stats()
    call()
    device.synchronize()
    return device.max_memory_allocated() - before


@pytest.mark.parametrize(("m", "n", "k"), [(16, 65536, 8192), (128, 32768, 8192), (4096, 8192, 4096)])
@by("device")
def test_memory_of_the_fp8_gemm(m, n, k, path):
    given = gemm_operands(path, m, n, k)
    most = m * n * (2 + (8 * 4 if m <= 128 else 0))
    assert m * n * 2 <= peak(path, lambda: chosen(path, *given)) <= most + MIB


@by("device")
def test_memory_of_the_quantization(path):
    x = torch.randn(8192, 8192, dtype=torch.bfloat16, device=path.device)
    assert peak(path, lambda: per_token_group_quant_fp8(x, 128, path.fp8)) <= x.numel() * (1 + 4 / 128) + MIB


@pytest.mark.parametrize(("m", "n", "k"), [(16, 65536, 8192), (256, 32768, 8192), (8192, 32768, 8192)])
@by("device")
def test_memory_of_the_mx_linear(m, n, k, path):
    x = torch.randn(m, k, dtype=torch.bfloat16, device=path.device)
    weight, weight_scale = randoms(path, n, k // 2), randoms(path, n, k // 32, low=117, high=133)
    most = 2 * m * k + 2 * m * n + (8 * 4 * m * n if m <= 256 else 2 * 8192 * k)
    assert peak(path, lambda: gemm_with_dynamic_quant(x, weight, weight_scale)) <= most + MIB


@pytest.mark.parametrize("tokens", [64, 8192])
@by("device")
def test_memory_of_the_moe(tokens, path):
    experts, top_k, hidden, intermediate = 16, 4, 2880, 2880
    weights = moe_weights(path, experts, hidden, intermediate)
    x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device=path.device)
    ids = torch.arange(tokens * top_k, device=path.device).view(tokens, top_k) % experts
    shares = torch.rand(tokens, top_k, device=path.device)
    rows = tokens * top_k
    most = 2 * rows * (hidden + intermediate) + 2 * tokens * hidden + 200 * rows
    assert peak(path, lambda: mxfp4_moe(x, shares, ids, **weights)) <= most + 4 * MIB
