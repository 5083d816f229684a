"""Patterns of module names."""

from __future__ import annotations

import pytest

from masquerade.contracts.patterns import root, select

NAMES = ["pkg", "pkg.a", "pkg.a.b", "pkg.a.b.c", "pkg.ab", "pkgs", "pkgs.a"]


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("pkg", ["pkg", "pkg.a", "pkg.a.b", "pkg.a.b.c", "pkg.ab"]),
        ("pkg.a", ["pkg.a", "pkg.a.b", "pkg.a.b.c"]),
        ("pkg.*", ["pkg.a", "pkg.ab"]),
        ("pkg.**", ["pkg.a", "pkg.a.b", "pkg.a.b.c", "pkg.ab"]),
        ("pkg.a*", ["pkg.a", "pkg.ab"]),
        ("pkg.a?", ["pkg.ab"]),
        ("pkg.**.c", ["pkg.a.b.c"]),
        ("pkg.*.*", ["pkg.a.b"]),
        ("**.a", ["pkg.a", "pkgs.a"]),
        ("*", ["pkg", "pkgs"]),
        ("other", []),
    ],
)
def test_select(pattern: str, found: list[str]) -> None:
    assert select(pattern, NAMES) == found


def test_where_to_look() -> None:
    assert [root(pattern) for pattern in ("pkg", "pkg.a.*", "pkg.**.c", "p*", "pkg.a?")] == [
        "pkg",
        "pkg.a",
        "pkg",
        "",
        "pkg",
    ]
