"""What a device's kernels refuse and the CPU's do not: operands of two devices, and products of 8-bit floats.

Operations on faked tensors run on the CPU, which has no such reasons. Both messages were recorded on an H200
(fixtures/recordings).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Products for which cuBLAS is asked by type: 8-bit floats go through torch._scaled_mm instead.
_PRODUCTS = frozenset({"aten::mm", "aten::addmm"})


def refuse(torch: Any, func: Any, operands: Sequence[Any]) -> None:
    """Raise what the device would for operator `func` on these tensors, some of which are on it."""
    if torch.Tag.pointwise in getattr(func, "tags", ()):
        _one_device(operands)
    elif getattr(func, "_schema", None) is not None and func._schema.name in _PRODUCTS:
        dtype = str(operands[-1].dtype).removeprefix("torch.")
        if dtype.startswith("float8"):
            raise NotImplementedError(f"\"addmm_cuda\" not implemented for '{dtype.capitalize()}'")


def _one_device(operands: Sequence[Any]) -> None:
    """As TensorIterator does: a number in a tensor of the CPU goes with any device."""
    common = None
    for tensor in operands:
        where = tensor.device
        if where.type == "cpu" and tensor.dim() == 0:
            continue
        if common is not None and where != common:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {common} and {where}!"
            )
        common = where
