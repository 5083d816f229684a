"""The CPU path's steps, on whichever device."""

from __future__ import annotations

from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem
from blockscale.oracle.selection import Backend

BACKEND: Backend[OcpMxLinearProblem] = Backend("EMULATION", order={"": 50}, requires=())
