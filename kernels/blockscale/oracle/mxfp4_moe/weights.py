"""From a checkpoint's MXFP4 MoE weights to what a backend's kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from blockscale.layouts import aiter, deepgemm, gfx1250
from blockscale.layouts.gate_up import interleaved_to_halves
from blockscale.platforms import current_platform


@dataclass(frozen=True, eq=False)
class KernelTensor:
    """A tensor in a kernel's own layout. As triton_kernels' tensors do, it has its plain `shape` and no methods."""

    data: torch.Tensor
    shape: torch.Size
    layout: str = "strided"


@dataclass(frozen=True, eq=False)
class PrecisionConfig:
    """The scales of one GEMM's weight, beside the weight rather than a parameter of the layer."""

    weight_scale: KernelTensor


@dataclass(frozen=True, eq=False)
class Mxfp4MoEWeights:
    """A layer's weights as its backend takes them.

    Either plain tensors with their scales, or wrapped ones whose scales are in the precision configs (and here None).
    In the CPU's layout scales are multiplied in, and what is here is empty.
    """

    w13: torch.Tensor | KernelTensor
    w2: torch.Tensor | KernelTensor
    w13_scale: torch.Tensor | None
    w2_scale: torch.Tensor | None
    w13_bias: torch.Tensor | None = None
    w2_bias: torch.Tensor | None = None
    w13_precision: PrecisionConfig | None = None
    w2_precision: PrecisionConfig | None = None


def convert_weight_to_mxfp4_moe_kernel_format(
    backend: str,
    w13: torch.Tensor,
    w2: torch.Tensor,
    w13_scale: torch.Tensor,
    w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    interleaved: bool = True,
) -> Mxfp4MoEWeights:
    """Convert w13 (E, 2 I, H / 2), w2 (E, H, I / 2), their e8m0 codes and biases for `backend`.

    Codes are (E, 2 I, H / 32) and (E, H, I / 32) uint8. `interleaved` says whether w13's rows are g0, u0, g1, u1, ...
    DEEPGEMM packs scales and keeps weights. AITER off gfx1250 shuffles both, with gates and ups in turns. TRITON, and
    AITER on gfx1250, wrap both and keep precision configs. XPU and EMULATION read the checkpoint's own layout.
    Of another backend its own file says how. Raises ValueError for a backend of another name.
    """
    if backend == "DEEPGEMM_MXFP4":
        scales = deepgemm.pack_scale(w13_scale), deepgemm.pack_scale(w2_scale)
        return Mxfp4MoEWeights(w13, w2, *scales, w13_bias, w2_bias)
    # The probe is asked for this one backend, and on ROCm alone.
    if backend == "AITER_MXFP4_BF16" and _on_gfx1250():
        return _wrapped(w13, w2, gfx1250.N32K4.shuffle(w13_scale), gfx1250.N32K4.shuffle(w2_scale), w13_bias, w2_bias,
                        gfx1250.N32K4.name)  # fmt: skip
    if backend in ("AITER_MXFP4_BF16", "AITER_MXFP4_MXFP4"):
        if interleaved:
            w13, w13_scale = interleaved_to_halves(w13), interleaved_to_halves(w13_scale)
            w13_bias = None if w13_bias is None else interleaved_to_halves(w13_bias, dim=-1)
        return Mxfp4MoEWeights(
            aiter.shuffle_w13(w13), aiter.MOE_WEIGHT.shuffle(w2), aiter.shuffle_w13_scale(w13_scale),
            aiter.SCALE.shuffle(w2_scale), w13_bias, w2_bias,
        )  # fmt: skip
    if backend in ("TRITON", "TRITON_UNFUSED"):
        return _wrapped(w13, w2, w13_scale, w2_scale, w13_bias, w2_bias, "strided")
    if backend in ("XPU", "EMULATION"):
        return Mxfp4MoEWeights(w13, w2, w13_scale, w2_scale, w13_bias, w2_bias)
    # Not at the top of the file: that module needs this one.
    from blockscale.oracle.mxfp4_moe.backend import conversion_of

    if convert := conversion_of(backend):
        return convert(w13, w2, w13_scale, w2_scale, w13_bias, w2_bias, interleaved)
    raise ValueError(
        f"backend: got {backend!r}, expected one whose layout is known, such as TRITON or AITER_MXFP4_BF16"
    )


def _on_gfx1250() -> bool:
    if not current_platform.is_rocm():
        return False
    from blockscale.platforms.rocm import on_gfx1250

    return on_gfx1250()


def _wrapped(
    w13: torch.Tensor, w2: torch.Tensor, w13_scale: torch.Tensor, w2_scale: torch.Tensor,
    w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None, scale_layout: str,
) -> Mxfp4MoEWeights:  # fmt: skip
    def scale(data: torch.Tensor, weight: torch.Tensor) -> PrecisionConfig:
        plain = torch.Size((*weight.shape[:-1], weight.shape[-1] // 16))
        return PrecisionConfig(KernelTensor(data, plain, scale_layout))

    return Mxfp4MoEWeights(
        KernelTensor(w13, w13.shape), KernelTensor(w2, w2.shape), None, None, w13_bias, w2_bias,
        scale(w13_scale, w13), scale(w2_scale, w2),
    )  # fmt: skip
