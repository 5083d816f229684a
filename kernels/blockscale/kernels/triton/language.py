"""`triton` and `tl`, or stand-ins where Triton is not installed, so that the kernels can be imported anywhere."""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:

    class _Missing:
        """Answers every attribute with itself, decorates by giving back, and refuses to be launched."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __call__(self, *args: Any, **options: Any) -> Any:
            return self

        def __getitem__(self, grid: object) -> Any:
            raise RuntimeError("Triton is not installed, and this kernel needs it: pip install blockscale[triton]")

    triton = tl = _Missing()

__all__ = ["tl", "triton"]
