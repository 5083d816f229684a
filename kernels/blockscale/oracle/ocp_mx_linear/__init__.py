"""The oracle of the OCP-MX linear. Each module beside this one is a backend."""

from __future__ import annotations

from dataclasses import dataclass

from blockscale.oracle.selection import Decision, backends_in, select


@dataclass(frozen=True)
class OcpMxLinearProblem:
    """One linear layer: N outputs, K inputs, activations quantized to MXFP4 on the fly."""

    n: int
    k: int


def select_ocp_mx_linear_backend(
    problem: OcpMxLinearProblem, backend: str | None = None
) -> Decision[OcpMxLinearProblem]:
    """The backend for a layer on this machine; errors as `select_mxfp4_moe_backend`."""
    return select(backends_in(__name__), problem, explicit=backend)
