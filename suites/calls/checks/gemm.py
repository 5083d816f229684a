"""The two linear kernels on small tensors, and whether AITER is found without HIP being opened."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import torch

from checks import layouts, operands, reference


def block_scaled_mm(**call: Any) -> str:
    """w8a8_triton_block_scaled_mm against float64; `call` are the arguments that operands.fp8_gemm makes."""
    from blockscale.kernels.fp8_block_gemm import w8a8_triton_block_scaled_mm

    got = w8a8_triton_block_scaled_mm(**call)
    want = reference.block_scaled(call["A"], call["B"], call["As"], call["Bs"], *call["block_size"])
    bound = 1e-6 if got.dtype == torch.float32 else 5e-3
    return reference.verdict(got, want, bound, call["output_dtype"])


def dynamic_quant(**call: Any) -> str:
    """gemm_with_dynamic_quant against float64, and that it leaves no variable and no thread behind.

    `call` are the arguments that operands.ocp_mx_gemm makes.
    """
    from blockscale.kernels.ocp_mx_linear import gemm_with_dynamic_quant

    variables, threads = set(os.environ.items()), threading.active_count()
    got = gemm_with_dynamic_quant(**call)
    # torch's own first use of a custom operator names a cache folder.
    left = {name for name, _ in variables ^ set(os.environ.items()) if name != "TORCHINDUCTOR_CACHE_DIR"}
    if left or threading.active_count() != threads:
        return f"left behind: variables {sorted(left)}, {threading.active_count() - threads} threads"
    want = reference.mxfp4(*reference.mxfp4_codes(call["x"])) @ reference.mxfp4(call["weight"], call["weight_scale"]).T
    return reference.verdict(got, want, 5e-3, call["out_dtype"])


def quark() -> dict[str, Any]:
    """A Quark OCP-MX layer, configured, loaded and called: whether its configuration left the device closed."""
    from blockscale.layers.quark_ocp_mx import QuarkOCP_MX

    scheme, layer = QuarkOCP_MX(out_features=32, in_features=256), torch.nn.Module()
    closed = _closed()
    given = operands.ocp_mx_gemm()
    scheme.create_weights(layer)
    layer.weight.copy_(given["weight"])
    layer.weight_scale.copy_(given["weight_scale"])
    scheme.process_weights_after_loading(layer)
    got = scheme.apply_weights(layer, given["x"])
    x = reference.mxfp4(*reference.mxfp4_codes(given["x"]))
    want = x @ reference.mxfp4(given["weight"], given["weight_scale"]).T
    return {"closed": closed, "answer": reference.verdict(got, want, 5e-3)}


def quark_configured() -> bool:
    """Whether a Quark OCP-MX layer leaves the device closed, and AITER unimported, while it is configured."""
    from blockscale.layers.quark_ocp_mx import QuarkOCP_MX

    QuarkOCP_MX(out_features=32, in_features=256)
    return _closed()


def by_aiter() -> str:
    """AITER's FP4 GEMM as blockscale calls it, from weights in AITER's layouts, whose activations' scales round up."""
    from blockscale.kernels.aiter import fp4_asm_gemm

    given = operands.ocp_mx_gemm()
    weight = layouts.placed(given["weight"][None], "weight (16, 16)")[0]
    scale = layouts.placed(given["weight_scale"][None], "e8m0")[0]
    got = fp4_asm_gemm(given["x"], weight, scale, torch.bfloat16, None)
    x = reference.mxfp4(*reference.mxfp4_codes(given["x"], "rceil"))
    return reference.verdict(got, x @ reference.mxfp4(given["weight"], given["weight_scale"]).T, 5e-3)


def aiter_found() -> dict[str, bool]:
    """is_aiter_found_and_supported(), and whether it left the device closed and AITER unimported."""
    from blockscale.platforms.libraries import is_aiter_found_and_supported

    return {"found": is_aiter_found_and_supported(), "closed": _closed()}


def _closed() -> bool:
    return "aiter" not in sys.modules and not torch.cuda.is_initialized() and not torch.xpu.is_initialized()
