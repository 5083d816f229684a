"""Arguments of vLLM's functions, small enough for a CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def fp8_block_gemm() -> dict[str, Any]:
    """A: 2 x 128, B: 128 x 128, both e4m3, with one scale for a row's 128 and for a block of 128 x 128."""
    torch = import_module("torch")
    return {
        "A": torch.ones(2, 128).to(torch.float8_e4m3fn),
        "B": torch.ones(128, 128).to(torch.float8_e4m3fn),
        "As": torch.ones(2, 1),
        "Bs": torch.ones(1, 1),
        "block_size": [128, 128],
        "output_dtype": torch.float32,
    }


def mxfp4_weights() -> dict[str, Any]:
    """The weights of 2 experts, 32 wide, as a checkpoint holds them: two e2m1 codes a byte, an e8m0 scale for 32."""
    torch = import_module("torch")
    oracle = import_module("vllm.model_executor.layers.fused_moe.oracle.mxfp4")
    shapes = {
        "w13_weight": (2, 64, 16),
        "w2_weight": (2, 32, 16),
        "w13_weight_scale": (2, 64, 1),
        "w2_weight_scale": (2, 32, 1),
    }
    weights = {name: torch.nn.Parameter(torch.zeros(shape, dtype=torch.uint8), False) for name, shape in shapes.items()}
    return {"mxfp4_backend": oracle.Mxfp4MoeBackend.XPU, "layer": torch.nn.Module(), **weights}
