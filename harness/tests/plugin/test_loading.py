"""The plugin costs a run that does not use it next to nothing: it loads neither torch nor its own parts."""

from __future__ import annotations

import pytest

from .conftest import Run

HEAVY = {"torch", "numpy", "rich", "click", "tomllib", "tomli"}


def loaded(pytester: pytest.Pytester, run: Run, body: str = "pass") -> set[str]:
    pytester.makepyfile(
        f"""
        import sys

        def test_one():
            {body}

        def test_two():
            open("loaded", "w").write(" ".join(sys.modules))
        """
    )
    assert run().ret == 0
    return set((pytester.path / "loaded").read_text().split())


def test_a_run_that_uses_nothing_of_it_loads_the_door_alone(pytester, run) -> None:
    found = loaded(pytester, run)
    assert "masquerade.plugin" in found
    assert {name for name in found if name.startswith("masquerade")} <= {"masquerade", "masquerade.plugin"}
    assert not found & HEAVY


def test_its_options_and_marks_are_told(pytester, run) -> None:
    told = run("--help").stdout.str()
    assert "--require-hardware" in told
    told = run("--markers").stdout.str()
    for mark in ("cuda", "rocm", "xpu", "cpu"):
        assert f"@pytest.mark.{mark}(*archs)" in told


def test_strict_markers_know_the_marks(pytester, run) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.cpu\ndef test_one(): pass")
    run("--strict-markers").assert_outcomes(passed=1)
