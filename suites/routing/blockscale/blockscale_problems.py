"""What the contracts of this folder ask: a problem's fields made into the oracles' own arguments, in the child."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem, select_mxfp4_moe_backend
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem

Arguments = tuple[list[Any], dict[str, Any]]

#: Layers of MXFP4 experts. gpt-oss has 2880, which is no multiple of 256.
LAYERS: dict[str, dict[str, Any]] = {
    "gpt-oss": {"hidden_size": 2880, "intermediate_size": 2880},
    "aligned": {"hidden_size": 3072, "intermediate_size": 3072},
    "deepseek-v4": {
        "hidden_size": 7168, "intermediate_size": 2048, "model_family": "deepseek-v4", "activation": "silu"
    },
}  # fmt: skip


def moe(layer: str, backend: str | None = None, **fields: Any) -> Arguments:
    """Arguments of `select_mxfp4_moe_backend`: one of LAYERS, with other fields."""
    return [Mxfp4MoEProblem(**{**LAYERS[layer], **fields})], {"backend": backend}


def fp8(n: int, k: int, backend: str | None = None, **fields: Any) -> Arguments:
    """Arguments of `select_fp8_block_gemm_backend`."""
    return [Fp8BlockGemmProblem(n, k, **fields)], {"backend": backend}


def ocp(n: int, k: int, backend: str | None = None) -> Arguments:
    """Arguments of `select_ocp_mx_linear_backend`."""
    return [OcpMxLinearProblem(n, k)], {"backend": backend}


def padded(problem: Mxfp4MoEProblem, backend: str | None = None) -> list[int]:
    """[intermediate, hidden] as the chosen backend pads them: an oracle's answer is more than a name."""
    decision = select_mxfp4_moe_backend(problem, backend)
    return list(decision.padding.padded(problem.intermediate_size, problem.hidden_size))


def ask(problems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The answers to many problems from one process, each as the record of a call of its own would hold it.

    A problem has function and factory (pkg.mod:func), args, kwargs, and env: variables for its call, null unsets one.
    """
    return {name: _asked(**problem) for name, problem in problems.items()}


def _asked(function: str, factory: str, args: list[Any], kwargs: dict[str, Any], env: dict[str, str | None]) -> Any:
    before = {name: os.environ.get(name) for name in env}
    try:
        _set(env)
        made, named = _named(factory)(*args, **kwargs)
        answer = _named(function)(*made, **named)
    except Exception as error:
        return {"raised": type(error).__name__, "message": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    finally:
        _set(before)
    if isinstance(answer, list):
        return answer
    return {"backend": answer.name, "refused": dict(answer.refused)}


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _named(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)
