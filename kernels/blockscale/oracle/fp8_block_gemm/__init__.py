"""The oracle of the FP8 block GEMM. Each module beside this one is a backend."""

from __future__ import annotations

from dataclasses import dataclass

from blockscale.oracle.selection import Decision, backends_in, expect_sizes, select


@dataclass(frozen=True)
class Fp8BlockGemmProblem:
    """One linear layer: N outputs, K inputs, scales for (block_n, block_k) blocks, `e8m0_scales` or fp32 ones.

    Raises ValueError naming the field for sizes that are no integers from 1 on.
    """

    n: int
    k: int
    block_n: int = 128
    block_k: int = 128
    e8m0_scales: bool = False

    def __post_init__(self) -> None:
        expect_sizes(self, "n", "k", "block_n", "block_k")


def select_fp8_block_gemm_backend(
    problem: Fp8BlockGemmProblem, backend: str | None = None
) -> Decision[Fp8BlockGemmProblem]:
    """The backend for a layer on this machine; errors as `select_mxfp4_moe_backend`."""
    return select(backends_in(__name__), problem, explicit=backend)
