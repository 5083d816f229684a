"""The OCP-MX linear on a Hopper card, by every way that its configurations know, against the product in plain torch."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels.ocp_mx_linear import emulated_gemm, gemm_with_dynamic_quant, triton_gemm

pytestmark = pytest.mark.cuda("sm_90")

WAYS = [
    {"BLOCK_N": 128, "BLOCK_M": 64, "BLOCK_K": 64, "GROUP_N": 4, "SPLIT_K": 1},
    {"BLOCK_N": 64, "BLOCK_M": 16, "BLOCK_K": 128, "GROUP_N": 1, "SPLIT_K": 2},
    {"fast": True, "dequantized_rows": 96},
    {"BLOCK_T": 8, "WARPGROUPS": 1, "STAGES": 6, "PROGRAMS": 4, "maxnreg": 64, "SPLIT_K": 3},
    {"BLOCK_T": 16, "WARPGROUPS": 2, "STAGES": 4, "most_splits": 8},
    {"BLOCK_T": 128, "WARPGROUPS": 2, "STAGES": 3, "SPLIT_K": 1},
]


def operands(m, n, k, low=110, high=140):
    generator = torch.Generator().manual_seed(m + n + k)
    x = torch.randn(m, k, generator=generator).bfloat16()
    weight = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, generator=generator)
    return x, weight, torch.randint(low, high, (n, k // 32), dtype=torch.uint8, generator=generator)


def error(got, want):
    return (torch.linalg.vector_norm(got.cpu().double() - want) / torch.linalg.vector_norm(want.double())).item()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 130, 96), (33, 200, 416), (300, 264, 512)])
def test_equals_plain_torch(m, n, k, dtype, way):
    given = operands(m, n, k)
    config = {"num_warps": 4, "num_stages": 3, **way} if "BLOCK_N" in way else way
    got = triton_gemm(*(tensor.cuda() for tensor in given), dtype, None, False, config)
    assert got.dtype == dtype
    assert error(got, emulated_gemm(*given, torch.float32)) < (5e-3 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_code_of_element_and_scale(way):
    """A row for each scale code, its elements all codes; x picks one element at a time, so that each shows alone."""
    weight = torch.arange(256, dtype=torch.uint8).repeat(256, 1)[:, :16].contiguous()
    weight[:, :8] = torch.arange(8, dtype=torch.uint8) * 34 + 16
    scale = torch.arange(256, dtype=torch.uint8)[:, None]
    x = torch.eye(32).bfloat16()
    config = {"num_warps": 4, "num_stages": 3, **way} if "BLOCK_N" in way else way
    got = triton_gemm(x.cuda(), weight.cuda(), scale.cuda(), torch.float32, None, False, config).cpu()
    want = emulated_gemm(x, weight, scale, torch.float32)
    assert torch.equal(got.isnan(), want.isnan())
    finite = slice(0, 253)  # beyond, elements overflow bf16, and a zero times infinity is not a number
    assert torch.equal(got[:, finite].nan_to_num(), want[:, finite].nan_to_num())


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_smallest_and_nan_scales(way):
    """Code 0 is 2^-127 and 255 NaN, which a decoder by shift turns into zero and infinity."""
    ones = torch.full((2, 16), 0x22, dtype=torch.uint8)
    scale = torch.tensor([[0], [255]], dtype=torch.uint8)
    config = {"num_warps": 4, "num_stages": 3, **way} if "BLOCK_N" in way else way
    x = torch.ones(1, 32).bfloat16()
    got = triton_gemm(x.cuda(), ones.cuda(), scale.cuda(), torch.float32, None, False, config).cpu()
    assert got[0, 0] == 32 * 2.0**-127 and got[0, 1].isnan()


@pytest.mark.parametrize("m", [1, 16, 32, 64, 128, 256, 700])
def test_the_card_s_own_configurations(m):
    given = operands(m, 520, 1024)
    got = gemm_with_dynamic_quant(*(tensor.cuda() for tensor in given))
    assert error(got, emulated_gemm(*given, torch.float32)) < 5e-3
