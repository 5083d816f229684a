"""Modules below a package that fails: a tree executes it once, and says of each what a fork of its own says."""

from __future__ import annotations

from pathlib import Path

import pytest
from trees import by_a_tree_alone, told

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage

RAISES = "raise RuntimeError('no')\n"
CATCHES = "F = open(__file__)\ntry:\n    import pkg.bad.a\nexcept Exception as e:\n    err = e\n"


def both(folder: Path, files: dict[str, str]) -> tuple[dict[str, object], dict[str, object]]:
    """What a tree says of all modules, and what forks of their own say."""
    write(folder, files)
    names = [name[:-3].replace("/", ".").removesuffix(".__init__") for name in files]
    with Stage(torch=False) as stage:
        checks = [Check(name, machines.resolve("h100"), path=(str(folder),)) for name in names]
        trees = by_a_tree_alone(stage, checks)
        flat = {record.id: told(record) for record in stage.run_all(checks)}
    return {name: told(record) for name, record in trees.items()}, flat


def below(package: str, count: int) -> dict[str, str]:
    return {f"{package}/m{number:02}.py": "" for number in range(count)}


def test_the_package_is_executed_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    bad = f"open({str(log)!r}, 'a').write('x')\n{RAISES}"
    files = {"pkg/__init__.py": "", "pkg/bad/__init__.py": bad, "pkg/good.py": "", **below("pkg/bad", 30)}
    trees, flat = both(tmp_path, files)
    assert trees == flat
    # Each flat check; then the tree's attempt, one check for all below it, and the package's own.
    assert len(log.read_text()) <= 31 + 3


@pytest.mark.parametrize(
    "files",
    [
        # Nobody can go on from a package that leaves a file open; one that lies in it fails, another does not.
        {
            "pkg/open/__init__.py": "F = open(__file__)\n",
            "pkg/open/bad/__init__.py": RAISES,
            "pkg/open/good/__init__.py": "",
            **below("pkg/open/bad", 4),
            **below("pkg/open/good", 4),
        },
        # The package's body is in the traceback of an error that a module raises.
        {
            "pkg/bad/__init__.py": CATCHES,
            "pkg/bad/a.py": f"import pkg.bad\nif hasattr(pkg.bad, 'err'):\n    raise pkg.bad.err\n{RAISES}",
            **below("pkg/bad", 5),
        },
    ],
    ids=["one in it", "its own error again"],
)
def test_a_failure_of_another_is_not_told_of_them(tmp_path: Path, files: dict[str, str]) -> None:
    trees, flat = both(tmp_path, {"pkg/__init__.py": "", **files})
    assert trees == flat
