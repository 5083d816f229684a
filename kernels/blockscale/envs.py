"""blockscale's environment switches. Each is read when it is asked for, never at import, and parsed as a boolean."""

from __future__ import annotations

import os

_TRUE = frozenset({"1", "true", "yes", "on", "y"})
_FALSE = frozenset({"0", "false", "no", "off", "n", ""})


def flag(name: str, default: bool = False) -> bool:
    """A switch: 1, true, yes, on or 0, false, no, off (any case). Raises ValueError for another value."""
    value = os.environ.get(name)
    if value is None:
        return default
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{name}: got {value!r}, expected 1 or 0 (true/false, yes/no and on/off mean the same)")
    return word in _TRUE


def use_aiter() -> bool:
    """BLOCKSCALE_USE_AITER (on): whether an oracle may choose AITER where it is installed."""
    return flag("BLOCKSCALE_USE_AITER", default=True)


def use_deep_gemm() -> bool:
    """BLOCKSCALE_USE_DEEP_GEMM (on): whether an oracle may choose DeepGEMM where it is installed."""
    return flag("BLOCKSCALE_USE_DEEP_GEMM", default=True)


def use_humming() -> bool:
    """BLOCKSCALE_USE_HUMMING (on): whether an oracle may choose humming where it is installed."""
    return flag("BLOCKSCALE_USE_HUMMING", default=True)


def widen_on_cpu() -> bool:
    """BLOCKSCALE_CPU_BF16_WEIGHTS (on): whether a layer's weights become bf16 once, after loading, on the CPU."""
    return flag("BLOCKSCALE_CPU_BF16_WEIGHTS", default=True)


def interpreting() -> bool:
    """TRITON_INTERPRET (off): whether Triton's interpreter runs the kernels, on CPU tensors."""
    return flag("TRITON_INTERPRET")
