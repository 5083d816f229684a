"""The CPU path's steps on whichever device: slow, right, and without any compiler."""

from __future__ import annotations

from functools import partial

from blockscale.kernels.mxfp4_moe import mxfp4_moe
from blockscale.layouts.padding import Padding
from blockscale.oracle.mxfp4_moe.backend import MoEBackend
from blockscale.oracle.mxfp4_moe.problem import GATED

BACKEND = MoEBackend(
    "EMULATION",
    order={"": 90},
    requires=(GATED,),
    padding=lambda problem: Padding(32, 32),
    run=partial(mxfp4_moe, emulate=True),
)
