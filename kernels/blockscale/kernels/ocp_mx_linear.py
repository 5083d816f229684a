"""OCP-MX linear: activations quantized to MXFP4 on the fly, times MXFP4 weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from blockscale.formats import mx
from blockscale.formats.mx import ScaleRounding
from blockscale.kernels import aiter, configs, cpu, dispatch
from blockscale.kernels.checks import expect, expect_contiguous, expect_dtype, expect_same_device, expect_shape
from blockscale.platforms import Arch, current_platform
from blockscale.platforms.libraries import AITER

ROUNDING = ScaleRounding.EVEN
"""Of the activations' scales: as Quark, vLLM and AITER's Triton kernel have it."""

MXFP4_ARCHS, MXFP4_FAMILIES = ("gfx950", "gfx1250"), ("sm_100", "sm_110", "sm_120")
"""Where the matrix unit multiplies MXFP4 by MXFP4, as seen in the output of Triton 3.9.0."""

_OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def gemm_with_dynamic_quant(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    rocm_use_aiter_fp4_asm_gemm: bool = False,
    out_dtype: torch.dtype = torch.bfloat16,
    x_scales: torch.Tensor | None = None,
    *,
    emulate: bool = False,
) -> torch.Tensor:
    """Quantize x to MXFP4, then x @ weight.T: (..., N) in `out_dtype`.

    x: (..., K) bf16, fp16 or fp32; with `x_scales` (..., K / 32) it is quantized already, (..., K / 2) uint8.
    weight: (N, K / 2) uint8, packed e2m1. weight_scale: (N, K / 32) e8m0, as uint8 or float8_e8m0fnu. K is a multiple
    of 32. `rocm_use_aiter_fp4_asm_gemm` asks for AITER's kernel and is a ValueError where that cannot serve; weights
    and scales are then in AITER's layouts. `emulate` computes it in plain torch on whichever device.
    Raises ValueError, before anything runs, for shapes, dtypes, devices or strides that do not fit. A torch custom op:
    torch.compile does not look inside.
    On a device the same call gives the same bits, and a row's depend on M, not on the other rows' values: with another
    M, K may be summed in another order. Beside the answer a device holds 2 M K bytes of x as bf16, for M up to 256 at
    most 8 times 4 M N bytes of partial sums, and beyond that 8192 rows of the weight as bf16.
    """
    scales = None if x_scales is None else _codes(x_scales)
    return torch.ops.blockscale.gemm_with_dynamic_quant(
        x, weight, _codes(weight_scale), rocm_use_aiter_fp4_asm_gemm, out_dtype, scales, emulate
    )


@torch.library.custom_op("blockscale::gemm_with_dynamic_quant", mutates_args=())
def _op(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    rocm_use_aiter_fp4_asm_gemm: bool,
    out_dtype: torch.dtype,
    x_scales: torch.Tensor | None,
    emulate: bool = False,
) -> torch.Tensor:
    if rocm_use_aiter_fp4_asm_gemm:
        why_not = _why_not_aiter(x)
        expect(not why_not, "rocm_use_aiter_fp4_asm_gemm", True, f"False: {why_not}")
    _check_arguments(x, weight, weight_scale, rocm_use_aiter_fp4_asm_gemm, out_dtype, x_scales)
    rows = x.numel() // x.shape[-1]
    flat_scales = None if x_scales is None else x_scales.reshape(-1, x_scales.shape[-1])
    flat = x.reshape(rows, x.shape[-1])
    if rocm_use_aiter_fp4_asm_gemm:
        out = aiter.fp4_asm_gemm(flat, weight, weight_scale, out_dtype, flat_scales)
    elif dispatch.runs_on_triton(x) and not emulate:
        out = _triton(flat, weight, weight_scale, out_dtype, flat_scales)
    else:
        out = emulated_gemm(flat, weight, weight_scale, out_dtype, flat_scales)
    return out.view(*x.shape[:-1], weight.shape[0])


@_op.register_fake
def _(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    rocm_use_aiter_fp4_asm_gemm: bool,
    out_dtype: torch.dtype,
    x_scales: torch.Tensor | None,
    emulate: bool = False,
) -> torch.Tensor:
    expect_same_device(x=x, weight=weight, weight_scale=weight_scale)  # torch asks a fake for one meta tensor of many
    return x.new_empty(*x.shape[:-1], weight.shape[0], dtype=out_dtype)


@dispatch.on_its_device
def _triton(
    x: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, dtype: torch.dtype, x_scales: torch.Tensor | None
) -> torch.Tensor:
    """Native MXFP4 x MXFP4 where the arch has it; elsewhere bf16, in which every quantized x is exact."""
    arch = dispatch.arch_of(x)
    config = configs.choose("ocp_mx_linear", arch, x.shape[0], weight.shape[0], weight.shape[1] * 2)
    return triton_gemm(x, weight, weight_scale, dtype, x_scales, multiplies_mxfp4(arch), config)


def triton_gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    dtype: torch.dtype,
    x_scales: torch.Tensor | None,
    native: bool,
    config: dict[str, Any],
) -> torch.Tensor:
    """The product as `config` says, an entry of configs/ocp_mx_linear. Arguments are not checked."""
    from blockscale.kernels.triton import ocp_mx_linear as kernel

    config = dict(config)
    if "BLOCK_T" in config:
        from blockscale.kernels.triton import ocp_mx_linear_hopper_launch as hopper

        if x_scales is None and hopper.serves(weight, x):
            return hopper.gemm(x, weight, weight_scale, dtype, ROUNDING, config)
        config = configs.choose("ocp_mx_linear", None, x.shape[0], weight.shape[0], weight.shape[1] * 2)
    rows, fast = config.pop("dequantized_rows", None), config.pop("fast", False)
    if x_scales is None:
        values, scales = kernel.quantize(x, ROUNDING, pack=native)
    elif native:
        values, scales = x, x_scales
    else:
        values = scales = kernel.dequantize(x, x_scales, fast)
    if rows:
        return kernel.gemm_of_dequantized(values, weight, weight_scale, dtype, rows, fast)
    return kernel.gemm(values, scales if native else None, weight, weight_scale, dtype, config)


def multiplies_mxfp4(arch: Arch | None) -> bool:
    """Whether the arch's matrix unit takes e2m1 with e8m0 scales on both sides."""
    if arch is None:
        return False
    return arch.name in MXFP4_ARCHS or any(arch.in_family(family) for family in MXFP4_FAMILIES)


def emulated_gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    dtype: torch.dtype,
    x_scales: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same product in plain torch, on whichever device: a matmul on dequantized operands, which bf16 holds exactly.

    In fp32 where the output is more precise than bf16. Arguments as `gemm_with_dynamic_quant`, and not checked.
    """
    return _product(_values(x, x_scales), cpu.dequantize_mxfp4(weight, weight_scale), dtype)


def prepared_gemm(
    x: torch.Tensor,
    weight: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
    x_scales: torch.Tensor | None = None,
) -> torch.Tensor:
    """Quantize x to MXFP4, then x @ weight.T in plain torch, for weights in the CPU's layout: (..., N) in `out_dtype`.

    x, x_scales: as `gemm_with_dynamic_quant` has them. weight: (N, K) bf16, `layouts.cpu.mxfp4_weight`'s. It gives the
    bits of that function on the weights as loaded. Raises ValueError, before anything runs, for what does not fit.
    A torch custom op.
    """
    scales = None if x_scales is None else _codes(x_scales)
    return torch.ops.blockscale.prepared_ocp_mx_gemm(x, weight, out_dtype, scales)


@torch.library.custom_op("blockscale::prepared_ocp_mx_gemm", mutates_args=())
def _prepared_op(
    x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype, x_scales: torch.Tensor | None
) -> torch.Tensor:
    expect(weight.dim() == 2, "weight", f"{weight.dim()} dimensions", "two, (N, K)")
    expect_dtype("weight", weight, (torch.bfloat16,))
    N, K = weight.shape
    whole_blocks = N > 0 and K > 0 and K % mx.BLOCK == 0
    expect(whole_blocks, "weight", f"shape {(N, K)}", f"(N, K) with K a multiple of {mx.BLOCK}")
    tensors = {"x": x, "weight": weight}
    if x_scales is not None:
        tensors["x_scales"] = x_scales
    _check_activations(x, K, out_dtype, x_scales, for_aiter=False)
    _check_places(tensors)
    return _product(_values(x, x_scales), weight, out_dtype)


@_prepared_op.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype, x_scales: torch.Tensor | None) -> torch.Tensor:
    expect_same_device(x=x, weight=weight)
    return x.new_empty(*x.shape[:-1], weight.shape[0], dtype=out_dtype)


def _values(x: torch.Tensor, x_scales: torch.Tensor | None) -> torch.Tensor:
    """(..., K) bf16: what MXFP4 makes of x (..., K), or what codes (..., K / 2) with scales (..., K / 32) stand for."""
    if x_scales is None:
        return cpu.round_to_mxfp4(x.reshape(-1, x.shape[-1]), ROUNDING).view(x.shape)
    return mx.dequantize(x, x_scales, torch.bfloat16)


def _product(values: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(..., N) of bf16 operands (..., K) and (N, K); in fp32 where the output is more precise than bf16."""
    if dtype == torch.bfloat16:
        return values @ weight.T
    return (values.float() @ weight.T.float()).to(dtype)


def _why_not_aiter(x: torch.Tensor) -> str:
    """Why AITER's FP4 kernel cannot serve, as a sentence; empty if it can. AITER is not imported to find out."""
    if why_not := AITER.why_not():
        return why_not
    if x.device.type != "cuda":
        return f"x is on {x.device}, and aiter needs a GPU."
    return "" if current_platform.arch != Arch.parse("gfx942") else "gfx942 has no FP4 matrix instructions."


def _codes(scale: torch.Tensor) -> torch.Tensor:
    return scale.view(torch.uint8) if scale.dtype == torch.float8_e8m0fnu else scale


def _check_arguments(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    for_aiter: bool,
    dtype: torch.dtype,
    x_scales: torch.Tensor | None,
) -> None:
    expect(weight.dim() == 2, "weight", f"{weight.dim()} dimensions", "two, (N, K / 2)")
    expect_dtype("weight", weight, (torch.uint8,))
    N, K = weight.shape[0], weight.shape[1] * 2
    whole_blocks = N > 0 and K > 0 and K % mx.BLOCK == 0
    expect(whole_blocks, "weight", f"shape {tuple(weight.shape)}", f"(N, K / 2) with K a multiple of {mx.BLOCK}")
    tensors = {"x": x, "weight": weight, "weight_scale": weight_scale}
    if x_scales is not None:
        tensors["x_scales"] = x_scales
    _check_activations(x, K, dtype, x_scales, for_aiter)
    _check_scales("weight_scale", weight_scale, (N,), K // mx.BLOCK, for_aiter)
    _check_places(tensors)


def _check_activations(
    x: torch.Tensor, K: int, dtype: torch.dtype, x_scales: torch.Tensor | None, for_aiter: bool
) -> None:
    expect(x.dim() >= 1, "x", f"{x.dim()} dimensions", "at least one, (..., K)")
    expect(dtype in _OUT_DTYPES, "out_dtype", dtype, " or ".join(map(str, _OUT_DTYPES)))
    columns = K if x_scales is None else K // 2
    expect(x.shape[-1] == columns, "x", f"shape {tuple(x.shape)}", f"a last dimension of {columns}, to suit weight's")
    expect_dtype("x", x, _OUT_DTYPES if x_scales is None else (torch.uint8,))
    if x_scales is not None:
        _check_scales("x_scales", x_scales, x.shape[:-1], K // mx.BLOCK, for_aiter)


def _check_places(tensors: dict[str, torch.Tensor]) -> None:
    expect_same_device(**tensors)
    for name, tensor in tensors.items():
        expect_contiguous(name, tensor)


def _check_scales(name: str, scale: torch.Tensor, rows: Sequence[int], blocks: int, for_aiter: bool) -> None:
    """One scale per row and block; AITER's shuffled scales are padded to 256 rows and 8 blocks."""
    if for_aiter:
        shape = [-(-math.prod(rows) // 256) * 256, -(-blocks // 8) * 8]
        expect_shape(name, scale, shape, "AITER's layout, padded to 256 rows and 8 blocks")
    else:
        expect_shape(name, scale, (*rows, blocks), f"one scale per row and {mx.BLOCK} of K = {blocks * mx.BLOCK}")
    expect_dtype(name, scale, (torch.uint8,))
