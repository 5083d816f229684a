"""An owner of a module that is not there: what is misspelt is told, and what is only not installed is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage
from masquerade.stage.owners import asked_of, missing

FILES = {
    "pkg/__init__.py": "",
    "pkg/platforms/__init__.py": "",
    "pkg/platforms/rocm.py": "",
    "pkg/platforms/xpu.py": "",
    "parts/space/mod.py": "",
}
STAND_IN = "One that is not built here takes a stand-in"


@pytest.fixture
def check(tmp_path: Path) -> Check:
    return Check("pkg", machines.resolve("cuda"), path=(str(write(tmp_path, FILES)),))


def told(stage: Stage, *checks: Check, owned: tuple[str, ...]) -> dict[str, str]:
    return missing(owned, [replace(check, owners={"rocm": owned}) for check in checks], asked_of(stage.discover))


def test_what_is_there_or_not_installed_is_no_mistake(one: Stage, check: Check) -> None:
    assert told(one, check, owned=("pkg", "pkg.platforms.rocm", "parts.space.mod", "aiter", "ghost.rocm")) == {}


def test_a_module_that_its_package_lacks_is_told_with_the_nearest(one: Stage, check: Check) -> None:
    assert told(
        one, check, owned=("pkg.platforms.rcm", "pkg.platforms.rocm", "pkg.plattforms.xpu", "pkg.zzzzzzzz")
    ) == {
        "pkg.platforms.rcm": f"there is no module pkg.platforms.rcm; did you mean pkg.platforms.rocm? {STAND_IN}",
        "pkg.plattforms.xpu": f"there is no module pkg.plattforms.xpu; did you mean pkg.platforms.xpu? {STAND_IN}",
        "pkg.zzzzzzzz": f"there is no module pkg.zzzzzzzz; mend its name or take it out. {STAND_IN}",
    }


def test_names_that_nobody_asks_for_and_those_that_come_with_masquerade_are_left_alone(
    one: Stage, check: Check
) -> None:
    assert missing((), [replace(check, owners={"rocm": ("pkg.rcm",)})], asked_of(one.discover)) == {}
    assert "cuda.bindings" in machines.default_owners()["cuda"]
    write(Path(check.path[0]), {"cuda/__init__.py": ""})
    assert list(told(one, check, owned=("cuda.bindings", "cuda.mine"))) == ["cuda.mine"]


@pytest.mark.parametrize(
    "changes",
    [{"stand_ins": {"pkg._C": ""}}, {"present": ("pkg",)}, {"machine": machines.resolve("here")}],
    ids=["replaced", "present", "here"],
)
def test_what_stands_for_another_is_there(one: Stage, check: Check, changes: dict) -> None:
    assert list(told(one, check, owned=("pkg._C.ops",))) == ["pkg._C.ops"]
    assert told(one, replace(check, **changes), owned=("pkg._C.ops",)) == {}


def test_a_module_that_one_check_has_is_no_mistake_of_another(one: Stage, check: Check, tmp_path: Path) -> None:
    other = replace(check, path=(str(write(tmp_path / "newer", {"pkg/__init__.py": "", "pkg/later.py": ""})),))
    for checks in ([check, other], [other, check]):
        assert list(told(one, *checks, owned=("pkg.later", "pkg.never"))) == ["pkg.never"]
