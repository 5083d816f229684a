"""Argument checks shared by the launchers: a ValueError that names the argument, its value and what was expected."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def expect(condition: bool, argument: str, value: object, expected: str) -> None:
    """Raise ValueError naming `argument`, its `value` and what was `expected`, unless `condition` holds."""
    if not condition:
        raise ValueError(f"{argument}: got {value}, expected {expected}")


def expect_shape(argument: str, tensor: torch.Tensor, shape: Sequence[int], meaning: str) -> None:
    """Raise ValueError unless `tensor` has this shape; `meaning` says where the shape comes from."""
    got = tuple(tensor.shape)
    expect(got == tuple(shape), argument, f"shape {got}", f"shape {tuple(shape)} ({meaning})")


def expect_dtype(argument: str, tensor: torch.Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Raise ValueError unless `tensor` has one of these dtypes."""
    expect(tensor.dtype in dtypes, argument, tensor.dtype, " or ".join(str(dtype) for dtype in dtypes))


def expect_same_device(**tensors: torch.Tensor) -> None:
    """Raise ValueError unless all tensors, given by argument name, are on the first one's device."""
    (first, reference), *others = tensors.items()
    for argument, tensor in others:
        expect(tensor.device == reference.device, argument, f"device {tensor.device}", f"{first}'s, {reference.device}")


def expect_contiguous(argument: str, tensor: torch.Tensor) -> None:
    """Raise ValueError unless `tensor` is contiguous."""
    got = f"strides {tensor.stride()} for shape {tuple(tensor.shape)}"
    expect(tensor.is_contiguous(), argument, got, "a contiguous tensor")


def expect_no_nan(argument: str, scales: torch.Tensor) -> None:
    """Raise ValueError if scales on the CPU hold NaN. On a device this is not asked: it would stall the stream."""
    if scales.device.type == "cpu":
        count = int(scales.float().isnan().sum())
        expect(count == 0, argument, f"{count} NaN of {scales.numel()} scales", "scales without NaN")
