"""`triton` and `tl`, or stand-ins where Triton is not installed, so that the kernels can be imported anywhere.

With them the two steps of a programmatic dependent launch, which only newer releases have, and Hopper alone needs.
"""

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

try:
    from triton.language.extra.cuda import gdc_launch_dependents as let_next_start
    from triton.language.extra.cuda import gdc_wait as wait_for_previous
except ImportError:
    # Triton looks up the names in a branch that it does not compile, too: a release without them must find some.
    @triton.jit
    def let_next_start():
        pass

    @triton.jit
    def wait_for_previous():
        pass


__all__ = ["let_next_start", "tl", "triton", "wait_for_previous"]
