"""What does not fit is a ValueError that names the argument and its value: never another number, never a crash."""

from __future__ import annotations

import pytest
import torch

from blockscale.formats import e2m1, fp8, mx
from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm
from blockscale.kernels.moe_router import Router, route
from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant, prepared_gemm
from blockscale.layouts import cpu, deepgemm, hopper
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem

E4M3 = torch.float8_e4m3fn


def packed(*shape):
    return torch.zeros(shape, dtype=torch.uint8)


def codes(*shape):
    return torch.full(shape, 127, dtype=torch.uint8)


@pytest.fixture(autouse=True)
def _plain_torch(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")


@pytest.mark.parametrize(
    "weight, scale, blocks, said",
    [
        (torch.ones(4, 64).to(torch.float8_e5m2), torch.ones(1, 1), (128, 128), "weight: got torch.float8_e5m2"),
        (torch.ones(4, 64), torch.ones(1, 1), (128, 128), "weight: got torch.float32"),
        (packed(4, 64), torch.ones(1, 1), (128, 128), "weight: got torch.uint8"),
        (torch.ones(4, 64).to(E4M3), codes(1, 1), (128, 128), "scale: got torch.uint8"),
        (torch.ones(4, 64).to(E4M3), torch.ones(1, 1), (0, 128), r"block_n, block_k: got \(0, 128\)"),
        (torch.ones(4, 0).to(E4M3), torch.ones(1, 0), (128, 128), r"weight: got shape \(4, 0\)"),
    ],
)
def test_the_cpu_layout_of_fp8_takes_no_other_weights(weight, scale, blocks, said):
    with pytest.raises(ValueError, match=said):
        cpu.fp8_weight(weight, scale, *blocks)


@pytest.mark.parametrize(
    "weight, scale, said",
    [
        (packed(3, 32), torch.ones(3, 2), "codes: got torch.float32"),
        (packed(3, 32).int(), codes(3, 2), "packed: got torch.int32"),
        (packed(2, 24), codes(2, 1), r"packed: got shape \(2, 24\)"),
        (packed(3, 0), codes(3, 0), r"packed: got shape \(3, 0\)"),
        (packed(0, 32), codes(0, 2), r"packed: got shape \(0, 32\)"),
        (packed(32), codes(2), r"packed: got shape \(32,\)"),
    ],
)
def test_the_cpu_layout_of_mxfp4_takes_no_other_weights(weight, scale, said):
    with pytest.raises(ValueError, match=said):
        cpu.mxfp4_weight(weight, scale)


def test_the_cpu_layout_of_mxfp4_takes_e8m0_scales():
    weight = torch.randint(0, 256, (3, 32), dtype=torch.uint8)
    assert torch.equal(
        cpu.mxfp4_weight(weight, codes(3, 2).view(torch.float8_e8m0fnu)), cpu.mxfp4_weight(weight, codes(3, 2))
    )


def test_one_quantized_row_needs_no_dimension_of_rows():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(0, 256, (3, 32), dtype=torch.uint8, generator=generator)
    row, scales = mx.quantize(torch.randn(64, generator=generator))
    of_many = gemm_with_dynamic_quant(row[None], weight, codes(3, 2), x_scales=scales[None])
    assert torch.equal(gemm_with_dynamic_quant(row, weight, codes(3, 2), x_scales=scales), of_many[0])
    assert torch.equal(prepared_gemm(row, cpu.mxfp4_weight(weight, codes(3, 2)), x_scales=scales), of_many[0])


def test_a_weight_without_numbers_gives_no_answer_of_whatever_memory_held():
    x = torch.ones(1, 64)
    with pytest.raises(ValueError, match="weight: got device meta, expected x's, cpu"):
        gemm_with_dynamic_quant(x, packed(3, 32).to("meta"), codes(3, 2).to("meta"))
    with pytest.raises(ValueError, match="weight: got device meta, expected x's, cpu"):
        prepared_gemm(x, torch.ones(3, 64, dtype=torch.bfloat16, device="meta"))


@pytest.mark.parametrize(
    "scale, said",
    [
        (torch.ones(2, 1), r"scale: got shape \(2, 1\), expected shape \(2, 64\)"),
        (torch.ones(2, 65), r"scale: got shape \(2, 65\)"),
        (torch.full((2, 64), 127, dtype=torch.uint8), "scale: got torch.uint8"),
    ],
)
def test_groups_are_not_dequantized_by_scales_of_others(scale, said):
    with pytest.raises(ValueError, match=said):
        fp8.dequantize_groups(torch.ones(2, 64).to(E4M3), scale, 1)


def test_signed_bytes_are_no_codes():
    """Their shift would spread the sign, and as numbers they are others than what they hold."""
    with pytest.raises(ValueError, match=r"packed: got torch\.int8, expected torch\.uint8"):
        e2m1.unpack(torch.tensor([-1], dtype=torch.int8))
    with pytest.raises(ValueError, match=r"elements: got torch\.int8, expected torch\.uint8"):
        mx.dequantize(torch.ones(1, 32, dtype=torch.int8), codes(1, 1))


@pytest.mark.parametrize(
    "problem, fields, said",
    [
        (Fp8BlockGemmProblem, {"n": 0, "k": 128}, "n: got 0, expected at least 1, an integer"),
        (Fp8BlockGemmProblem, {"n": 128, "k": 1.5}, "k: got 1.5, expected at least 1, an integer"),
        (Fp8BlockGemmProblem, {"n": 128, "k": 128, "block_n": -1}, "block_n: got -1"),
        (Fp8BlockGemmProblem, {"n": 128, "k": 128, "block_k": 0}, "block_k: got 0"),
        (OcpMxLinearProblem, {"n": -5, "k": 128}, "n: got -5, expected at least 1, an integer"),
        (OcpMxLinearProblem, {"n": 8, "k": 33}, "k: got 33, expected a multiple of 32"),
        (Mxfp4MoEProblem, {"hidden_size": "2880", "intermediate_size": 64}, "hidden_size: got '2880'"),
        (Mxfp4MoEProblem, {"hidden_size": 64, "intermediate_size": 2880.0}, "intermediate_size: got 2880.0"),
        (Mxfp4MoEProblem, {"hidden_size": 64, "intermediate_size": 64, "hidden_pad": None}, "hidden_pad: got None"),
    ],
)
def test_no_oracle_chooses_for_a_layer_that_cannot_be(problem, fields, said):
    with pytest.raises(ValueError, match=said):
        problem(**fields)


@pytest.mark.parametrize("block_size", [128, None])
def test_one_number_is_no_block_size(block_size):
    a = torch.ones(2, 128).to(E4M3)
    with pytest.raises(ValueError, match=f"block_size: got {block_size}, expected two positive integers"):
        w8a8_triton_block_scaled_mm(a, a, torch.ones(2, 1), torch.ones(1, 1), block_size)


@pytest.mark.parametrize("top_k", [2.0, "2"])
def test_a_router_counts_in_integers(top_k):
    with pytest.raises(ValueError, match=f"router.top_k: got {top_k!r}, expected 1 to 4"):
        route(torch.ones(3, 4), Router(top_k))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"activation": "silu"}, "activation: got 'silu', expected a SwiGLU"),
        ({"intermediate_pad": 2.0}, "intermediate_pad: got 2.0, expected an even number"),
    ],
)
def test_the_moe_names_what_it_cannot_use(experts, named, said):
    p = experts()
    with pytest.raises(ValueError, match=said):
        mxfp4_moe(p.x, p.topk_weights, p.topk_ids, p.w13, p.w13_scale, p.w2, p.w2_scale, **named)


def test_layouts_name_what_is_no_such_layout():
    with pytest.raises(ValueError, match=r"shuffled: got shape \(256, 63\), expected"):
        hopper.value().unshuffle(packed(256, 63), 3, 3)
    with pytest.raises(ValueError, match=r"codes: got torch\.float32 of shape \(4, 5\)"):
        deepgemm.pack_scale(torch.zeros(4, 5))
    with pytest.raises(ValueError, match=r"codes: got torch\.uint8 of shape \(4,\)"):
        deepgemm.pack_scale(codes(4))
