"""Arch names are parsed, never searched: each trap of the naming schemes."""

from __future__ import annotations

import pytest

from blockscale.platforms import Arch


@pytest.mark.parametrize(
    ("text", "name", "numbers"),
    [
        ("gfx950:sramecc+:xnack-", "gfx950", (9, 5, 0)),
        ("gfx90a:sramecc+:xnack-", "gfx90a", (9, 0, 10)),
        ("gfx942", "gfx942", (9, 4, 2)),
        ("gfx1250:sramecc+:xnack-", "gfx1250", (12, 5, 0)),
        ("gfx1201", "gfx1201", (12, 0, 1)),
        ("gfx1151", "gfx1151", (11, 5, 1)),
        ("sm_90a", "sm_90", (9, 0, 0)),
        ("sm90", "sm_90", (9, 0, 0)),
        ("sm_103", "sm_103", (10, 3, 0)),
        ("sm_120f", "sm_120", (12, 0, 0)),
        ("bmg", "bmg", (0, 0, 0)),
    ],
)
def test_parse(text, name, numbers):
    arch = Arch.parse(text)
    assert (arch.name, (arch.major, arch.minor, arch.stepping)) == (name, numbers)


@pytest.mark.parametrize("text", ["", "gfx", "gfx9", "my-gfx950", "gfx950 ", "sm_9", "sm_1234", "SM_90", "cpu"])
def test_what_is_no_arch(text):
    with pytest.raises(ValueError, match="arch: got"):
        Arch.parse(text)


def test_features_do_not_make_another_arch():
    assert Arch.parse("gfx950:sramecc+:xnack-") == Arch.parse("gfx950")
    assert Arch.parse("sm_90a") == Arch.from_capability((9, 0))


def test_capabilities_of_two_vendors_never_meet():
    """torch says (9, 0) of a gfx90a and of an H100; the arches must stay apart."""
    assert Arch.parse("gfx90a") != Arch.from_capability((9, 0))
    with pytest.raises(TypeError, match="gfx90a has no compute capability"):
        _ = Arch.parse("gfx90a").capability


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("gfx1250", {"gfx125"}),
        ("gfx1201", {"gfx12"}),
        ("gfx942", {"gfx9"}),
        ("gfx90a", {"gfx9"}),
        ("sm_90", {"sm_90"}),
        ("sm_89", {"sm_80"}),
        ("sm_103", {"sm_100"}),
        ("sm_110", {"sm_110"}),
        ("sm_121", {"sm_120"}),
        ("sm_75", set()),
    ],
)
def test_families(name, families):
    from blockscale.platforms.arch import FAMILIES

    assert {family for family in FAMILIES if Arch.parse(name).in_family(family)} == families


def test_unknown_family():
    with pytest.raises(ValueError, match="family: got 'gfx10', expected one of"):
        Arch.parse("gfx942").in_family("gfx10")


@pytest.mark.parametrize("name", ["gfx90a", "gfx950", "gfx1100", "gfx1250", "sm_90"])
def test_warp_size(name):
    assert Arch.parse(name).warp_size == (64 if name in ("gfx90a", "gfx950") else 32)
