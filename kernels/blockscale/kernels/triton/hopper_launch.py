"""What the launchers of Hopper's kernels share: descriptors of tiles, and how work is cut for a card."""

from __future__ import annotations

import functools
from typing import Any

import torch

from blockscale.kernels.triton import gluon
from blockscale.kernels.triton.gluon import gl, triton

ALIGNMENT = 16
"""Bytes: of a descriptor's base and row stride (CUDA driver API, cuTensorMapEncodeTiled)."""

STEPS_OF_A_UNIT, STEPS_OF_THE_SUM = 6, 8
"""What a unit of work costs beside its K steps, and what the sum over split K costs, both in steps: seen on an H200."""


def descriptor(tensor: torch.Tensor, rows: int, columns: int) -> Any:
    """A descriptor of (rows, columns) tiles of a matrix, swizzled as the matrix unit reads them."""
    swizzle = min(128, columns * tensor.itemsize)
    layout = gl.NVMMASharedLayout(swizzle, 8 * tensor.itemsize, 2)
    return gluon.TensorDescriptor.from_tensor(tensor, [rows, columns], layout)


@functools.cache
def even_split(tiles: int, steps: int, programs: int, most: int) -> int:
    """How many shares of K give `programs` that run at once the least to do after one another."""

    def cost(split: int) -> int:
        rounds = triton.cdiv(tiles * split, programs)
        return rounds * (triton.cdiv(steps, split) + STEPS_OF_A_UNIT) + (STEPS_OF_THE_SUM if split > 1 else 0)

    return min(range(1, min(most, steps) + 1), key=cost)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Of the device, as torch says."""
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count
