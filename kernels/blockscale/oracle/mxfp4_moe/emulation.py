"""The CPU path's steps on whichever device: slow, right, and without any compiler."""

from __future__ import annotations

from blockscale.layouts.padding import Padding
from blockscale.oracle.mxfp4_moe.problem import GATED, Mxfp4MoEProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[Mxfp4MoEProblem] = Backend(
    "EMULATION",
    order={"": 90},
    requires=(GATED,),
    padding=lambda problem: Padding(32, 32),
)
