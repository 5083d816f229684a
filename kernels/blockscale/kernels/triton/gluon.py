"""`gluon` and its language `gl`, Hopper's instructions under one name for all releases; stand-ins without them."""

from __future__ import annotations

from blockscale.kernels.triton.language import let_next_start, triton, wait_for_previous

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import hopper
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    # Triton 3.8 gave the copies of the tensor memory accelerator new names.
    copy_in = getattr(hopper.tma, "async_load", None) or hopper.tma.async_copy_global_to_shared
    copy_out = getattr(hopper.tma, "async_store", None) or hopper.tma.async_copy_shared_to_global
    if hasattr(gl.shared_memory_descriptor, "reinterpret"):

        @gluon.jit
        def in_pieces(memory, COUNT: gl.constexpr, ROWS: gl.constexpr):
            """Shared memory of tiles as COUNT tiles of ROWS rows, as long as those were."""
            return memory.reinterpret(memory.dtype, [COUNT, ROWS, memory.shape[2]], memory.layout)
    else:  # Triton up to 3.6

        @gluon.jit
        def in_pieces(memory, COUNT: gl.constexpr, ROWS: gl.constexpr):
            return memory._reinterpret(memory.dtype, [COUNT, ROWS, memory.shape[2]], memory.layout)

    AVAILABLE = hasattr(gl, "warp_specialize") and hasattr(hopper, "warpgroup_mma")
except (ImportError, AttributeError):

    class _Missing:
        """Decorates by giving back; nothing of it is launched, for AVAILABLE says no."""

        def jit(self, function: object) -> object:
            return function

        def constexpr(self, value: object) -> object:
            return value

    gluon = gl = _Missing()
    hopper = TensorDescriptor = copy_in = copy_out = in_pieces = None
    AVAILABLE = False

__all__ = [
    "AVAILABLE", "TensorDescriptor", "copy_in", "copy_out", "gl", "gluon", "hopper", "in_pieces", "let_next_start",
    "triton", "wait_for_previous",
]  # fmt: skip
