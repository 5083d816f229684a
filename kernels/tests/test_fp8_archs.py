"""On which archs the kernels take FP8 operands, and on which they decode codes."""

from __future__ import annotations

import pytest

from blockscale.kernels.dispatch import has_fp8_type
from blockscale.platforms import Arch


@pytest.mark.parametrize("name", ["sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"])
def test_fp8_from_sm_89_on(name):
    assert has_fp8_type(Arch.parse(name))


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_86"])
def test_before_sm_89_codes_are_decoded(name):
    assert not has_fp8_type(Arch.parse(name))


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx1100", "gfx1250", "bmg"])
def test_other_vendors_compilers_have_the_type(name):
    """Their numbers are no compute capability, and are not compared with one."""
    assert has_fp8_type(Arch.parse(name))
