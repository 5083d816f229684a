"""AITER's multiples of 256: each size is asked for by itself."""

from __future__ import annotations

import pytest

from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem, select_mxfp4_moe_backend


@pytest.mark.parametrize(("hidden", "intermediate"), [(3072, 2880), (2880, 2816)])
def test_each_size_alone_refuses_aiter(here, hidden, intermediate):
    here("rocm", "gfx950", ("triton", "aiter"))
    decision = select_mxfp4_moe_backend(Mxfp4MoEProblem(hidden, intermediate))
    assert decision.name == "TRITON"
    reason = f"It needs sizes in multiples of 256, and they are {hidden} (hidden) and {intermediate} (intermediate)."
    assert dict(decision.refused)["AITER_MXFP4_BF16"] == reason
