"""FP8 GEMM with block scales: activations scaled per 1 x 128, weights per 128 x 128."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from blockscale.kernels import configs, cpu, dispatch
from blockscale.kernels.checks import (
    expect,
    expect_contiguous,
    expect_dtype,
    expect_no_nan,
    expect_same_device,
    expect_shape,
)
from blockscale.platforms import current_platform

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
SCALE_DTYPES = (torch.float32, torch.float8_e8m0fnu)
_SMALLEST_K_STEP = 32  # of an fp8 matrix instruction
OUTPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def w8a8_triton_block_scaled_mm(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: Sequence[int],
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """C = (A * As) @ (B * Bs).T, each scale spread over its block.

    A: (..., K) fp8, the activations. B: (N, K) fp8 of the same dtype, the weights. block_size: (block_n, block_k).
    As: (..., ceil(K / block_k)), one scale per row and K block. Bs: (ceil(N / block_n), ceil(K / block_k)). Scales are
    fp32 or e8m0. M, N and K need not be multiples of anything. Returns (..., N) in `output_dtype`.
    On a device the fp8 dtype must be the arch's: e4m3fnuz on gfx942, e4m3fn elsewhere.
    On a device the same call gives the same bits, and a row's depend on M, not on the other rows: with another M, K may
    be summed in another order. Beside the answer a device holds, for M up to 128, at most 8 times 4 M N bytes of
    partial sums; for more rows nothing but, on sm_90, the same for the last rows of the answer alone.
    Raises ValueError, before anything runs, for shapes, dtypes, devices or strides that do not fit. While torch
    compiles it is a custom op, which torch does not look into.
    """
    if torch.compiler.is_compiling():
        return torch.ops.blockscale.w8a8_block_scaled_mm(A, B, As, Bs, list(block_size), output_dtype)
    block_n, block_k = _check_arguments(A, B, As, Bs, block_size, output_dtype)
    if _native_fp8_is_wrong():
        return dequantized_mm(A, B, As, Bs, block_n, block_k, output_dtype)
    if not dispatch.runs_on_triton(A):
        return _cpu_mm(A, B, As, Bs, block_n, block_k, output_dtype)
    (N, K), rows = B.shape, A.numel() // B.shape[1]
    scales = As.reshape(rows, As.shape[-1]).contiguous()
    out = _triton(A.view(rows, K), B, scales, Bs.contiguous(), block_n, block_k, output_dtype)
    return out.view(*A.shape[:-1], N)


@dispatch.on_its_device
def _triton(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_n: int, block_k: int, dtype: torch.dtype
) -> torch.Tensor:
    """Hopper's own kernel where it serves, else the one for every arch. All operands have two dimensions."""
    from blockscale.kernels.triton import fp8_block_gemm as kernel
    from blockscale.kernels.triton import fp8_block_gemm_hopper_launch as hopper

    if kernel.block_k_step(block_k) < _SMALLEST_K_STEP:
        return dequantized_mm(A, B, As, Bs, block_n, block_k, dtype)
    arch, shape = dispatch.arch_of(A), (A.shape[0], *B.shape)
    if arch is not None and arch.name == "sm_90" and hopper.serves(A, B, block_n, block_k):
        config = configs.choose("fp8_block_gemm_hopper", arch, *shape)
        return hopper.fp8_block_gemm(A, B, As, Bs, block_n, block_k, dtype, config)
    config = configs.choose("fp8_block_gemm", arch, *shape)
    decode = not dispatch.has_fp8_type(arch)
    return kernel.fp8_block_gemm(A, B, As, Bs, block_n, block_k, dtype, config, decode)


@torch.library.custom_op("blockscale::w8a8_block_scaled_mm", mutates_args=())
def _op(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: list[int],
    output_dtype: torch.dtype,
) -> torch.Tensor:
    return w8a8_triton_block_scaled_mm(A, B, As, Bs, block_size, output_dtype)


@_op.register_fake
def _(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: list[int],
    output_dtype: torch.dtype,
) -> torch.Tensor:
    return A.new_empty(*A.shape[:-1], B.shape[0], dtype=output_dtype)


def _native_fp8_is_wrong() -> bool:
    """On gfx1250 the native FP8 block GEMM gives NaN. Only a ROCm host imports ROCm's module to ask."""
    if not current_platform.is_rocm():
        return False
    from blockscale.platforms.rocm import on_gfx1250

    return on_gfx1250()


def dequantized_mm(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_n: int, block_k: int, dtype: torch.dtype
) -> torch.Tensor:
    """The same product in fp32 on dequantized operands: the reference, and what gfx1250 runs."""
    N, K = B.shape
    a = A.float() * _spread(As.float(), -1, block_k, K)  # (..., K)
    b = B.float() * _spread(_spread(Bs.float(), 0, block_n, N), 1, block_k, K)  # (N, K)
    return (a @ b.T).to(dtype)


def _cpu_mm(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor, block_n: int, block_k: int, dtype: torch.dtype
) -> torch.Tensor:
    """bf16 matmul on dequantized operands where bf16 is asked for; the reference where more precision is."""
    if dtype != torch.bfloat16:
        return dequantized_mm(A, B, As, Bs, block_n, block_k, dtype)
    rows, (N, K) = A.numel() // B.shape[1], B.shape
    a = cpu.dequantize_fp8(A.view(rows, K), As.reshape(rows, As.shape[-1]), 1, block_k)
    return (a @ cpu.dequantize_fp8(B, Bs, block_n, block_k).T).view(*A.shape[:-1], N)


def prepared_mm(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, block_k: int, output_dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """C = (A * As) @ B.T in plain torch, for weights in the CPU's layout: (..., N) in `output_dtype`.

    A, As: as `w8a8_triton_block_scaled_mm` has them. B: (N, K) bf16, `layouts.cpu.fp8_weight`'s. In bf16 it gives the
    bits of that function on the weights as loaded; elsewhere a product in fp32, of weights that were rounded to bf16.
    Raises ValueError, before anything runs, for what does not fit. While torch compiles it is a custom op.
    """
    if torch.compiler.is_compiling():
        return torch.ops.blockscale.prepared_mm(A, B, As, block_k, output_dtype)
    expect(isinstance(block_k, int) and block_k > 0, "block_k", block_k, "a positive integer")
    _check_operands(A, B, output_dtype)
    expect_dtype("B", B, (torch.bfloat16,))
    _check_scales_of_rows(A, As, block_k)
    expect_same_device(A=A, B=B, As=As)
    rows, (N, K) = A.numel() // B.shape[1], B.shape
    a, a_scale = A.view(rows, K), As.reshape(rows, As.shape[-1])
    if output_dtype == torch.bfloat16:
        out = cpu.dequantize_fp8(a, a_scale, 1, block_k) @ B.T
    else:
        out = ((a.float() * _spread(a_scale.float(), -1, block_k, K)) @ B.float().T).to(output_dtype)
    return out.view(*A.shape[:-1], N)


@torch.library.custom_op("blockscale::prepared_mm", mutates_args=())
def _prepared_op(
    A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, block_k: int, output_dtype: torch.dtype
) -> torch.Tensor:
    return prepared_mm(A, B, As, block_k, output_dtype)


@_prepared_op.register_fake
def _(A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, block_k: int, output_dtype: torch.dtype) -> torch.Tensor:
    return A.new_empty(*A.shape[:-1], B.shape[0], dtype=output_dtype)


def _spread(scales: torch.Tensor, dim: int, block: int, size: int) -> torch.Tensor:
    """Repeat each scale over its block along `dim`; the last block is cut at `size`."""
    return scales.repeat_interleave(block, dim).narrow(dim, 0, size)


def _check_arguments(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: Sequence[int],
    output_dtype: torch.dtype,
) -> tuple[int, int]:
    is_pair = isinstance(block_size, Sequence) and len(block_size) == 2
    two_positive = is_pair and all(isinstance(size, int) and size > 0 for size in block_size)
    expect(two_positive, "block_size", block_size, "two positive integers, (block_n, block_k)")
    block_n, block_k = block_size
    _check_operands(A, B, output_dtype)
    if A.device.type != "cpu" and (arch := dispatch.arch_of(A)) is not None:
        native = torch.float8_e4m3fnuz if arch.fp8_is_fnuz else torch.float8_e4m3fn
        expect(A.dtype == native, "A", A.dtype, f"{native}, the fp8 of {arch}")
    expect(B.dtype == A.dtype, "B", B.dtype, f"A's dtype, {A.dtype}")
    _check_scales_of_rows(A, As, block_k)
    k_blocks, n_blocks = As.shape[-1], -(-B.shape[0] // block_n)
    expect_shape("Bs", Bs, (n_blocks, k_blocks), f"one scale per {block_n} x {block_k} block of B")
    expect_dtype("Bs", Bs, SCALE_DTYPES)
    expect_same_device(A=A, B=B, As=As, Bs=Bs)
    expect_no_nan("Bs", Bs)
    return block_n, block_k


def _check_operands(A: torch.Tensor, B: torch.Tensor, output_dtype: torch.dtype) -> None:
    """What holds for weights of either layout."""
    expect(A.dim() >= 1, "A", f"{A.dim()} dimensions", "at least one, (..., K)")
    expect(B.dim() == 2, "B", f"{B.dim()} dimensions", "two, (N, K)")
    N, K = B.shape
    expect(N > 0 and K > 0, "B", f"shape {tuple(B.shape)}", "at least one row and one column")
    expect(A.shape[-1] == K, "A", f"shape {tuple(A.shape)}", f"a last dimension of {K}, as in B")
    expect_dtype("A", A, FP8_DTYPES)
    expect(output_dtype in OUTPUT_DTYPES, "output_dtype", output_dtype, "bfloat16, float16 or float32")
    expect_contiguous("A", A)
    expect_contiguous("B", B)


def _check_scales_of_rows(A: torch.Tensor, As: torch.Tensor, block_k: int) -> None:
    K = A.shape[-1]
    expect_shape("As", As, (*A.shape[:-1], -(-K // block_k)), f"one scale per row and {block_k} of K = {K}")
    expect_dtype("As", As, SCALE_DTYPES)
    expect_no_nan("As", As)
