"""The MXFP4 MoE oracle. Each module beside this one is a backend; `select_mxfp4_moe_backend` chooses among them."""

from __future__ import annotations

from blockscale.oracle.mxfp4_moe.problem import MODEL_FAMILIES, Mxfp4MoEProblem
from blockscale.oracle.selection import Decision, backends_in, select

__all__ = ["MODEL_FAMILIES", "Mxfp4MoEProblem", "select_mxfp4_moe_backend"]

LORA_MESSAGE = "MXFP4 MoE with LoRA is not implemented on any platform."


def select_mxfp4_moe_backend(problem: Mxfp4MoEProblem, backend: str | None = None) -> Decision[Mxfp4MoEProblem]:
    """The backend for a layer on this machine, its padding, and why those before it were refused.

    `backend` asks for one by name: a ValueError names the requirement that it does not meet. NotImplementedError if
    nothing can serve, with all reasons; LoRA is one on every platform.
    """
    if problem.lora:
        raise NotImplementedError(LORA_MESSAGE)
    return select(backends_in(__name__), problem, problem.model_family, backend)
