"""The oracle of the OCP-MX linear. Each module beside this one is a backend."""

from __future__ import annotations

from dataclasses import dataclass

from blockscale.formats.mx import BLOCK
from blockscale.kernels.checks import expect
from blockscale.oracle.selection import Decision, backends_in, expect_sizes, select


@dataclass(frozen=True)
class OcpMxLinearProblem:
    """One linear layer: N outputs, K inputs, activations quantized to MXFP4 on the fly.

    Raises ValueError naming the field for sizes that are no integers from 1 on, and for a K that is no whole MX blocks.
    """

    n: int
    k: int

    def __post_init__(self) -> None:
        expect_sizes(self, "n", "k")
        expect(self.k % BLOCK == 0, "k", self.k, f"a multiple of {BLOCK}, the elements of an MX block")


def select_ocp_mx_linear_backend(
    problem: OcpMxLinearProblem, backend: str | None = None
) -> Decision[OcpMxLinearProblem]:
    """The backend for a layer on this machine; errors as `select_mxfp4_moe_backend`."""
    return select(backends_in(__name__), problem, explicit=backend)
