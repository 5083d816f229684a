"""Stands for vLLM's compiled kernels: answers what is asked of them before any kernel runs, and holds no kernel."""

from __future__ import annotations

from collections.abc import Mapping

import torch

_CUDA = tuple(int(part) for part in (torch.version.cuda or "0.0").split(".")[:2])

#: Operator -> compute capability -> the CUDA from which on it has kernels. The highest that is reached counts.
#: Source: csrc/libtorch_stable/quantization/w8a8/cutlass/scaled_mm_entry.cu and fp4/nvfp4_scaled_mm_entry.cu of vLLM.
_SINCE: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "cutlass_scaled_mm_supports_fp8": {90: (12, 0), 89: (12, 4)},
    "cutlass_scaled_mm_supports_block_fp8": {100: (12, 8), 90: (12, 0)},
    "cutlass_group_gemm_supported": {100: (12, 8), 90: (12, 3)},
    "cutlass_scaled_mm_supports_fp4": {100: (12, 8)},
}


def _supports(capability: int, since: Mapping[int, tuple[int, int]]) -> bool:
    reached = next((known for known in since if capability >= known), None)
    return reached is not None and since[reached] <= _CUDA


for _name, _since in _SINCE.items():
    # The CUDA build alone has these operators; another platform must not find them.
    if torch.version.cuda and not hasattr(torch.ops._C, _name):
        torch.library.define(f"_C::{_name}", "(int capability) -> bool")
        torch.library.impl(
            f"_C::{_name}",
            "CompositeExplicitAutograd",
            lambda capability, since=_since: _supports(capability, since),
        )
