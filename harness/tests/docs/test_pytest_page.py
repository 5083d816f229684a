"""docs/pytest.md tells the truth: its tests run, and so do its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from conftest import write

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/pytest.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not run from the repository")

#: What the page's tests are about.
PACKAGE = {
    "src/mypackage/__init__.py": "",
    "src/mypackage/ops.py": """\
        def backend():
            import torch

            return "aiter" if torch.version.hip else "triton"

        def setup(rows):
            return rows
        """,
    "pyproject.toml": """\
        [tool.pytest.ini_options]
        pythonpath = ["src"]
        [tool.masquerade]
        machines = ["h100", "mi355x"]
        [[tool.masquerade.contracts]]
        name = "lazy"
        kind = "imports"
        modules = ["mypackage"]
        """,
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The package, with the page's own tests."""
    by_machine, marks, by_hand = blocks("python")
    each = [f"{mark}\ndef test_{n}():\n    pass\n\n" for n, mark in enumerate(re.findall(r"^@.*$", marks, re.M))]
    return write(tmp_path, {
        **PACKAGE,
        "tests/test_machines.py": by_machine,
        "tests/test_by_hand.py": by_hand,
        "hardware/test_hardware.py": "import pytest\n\n" + "".join(each),
    })  # fmt: skip


def pytester(project: Path, *words: str) -> tuple[int, str]:
    """Call pytest as its reader does."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "harness"), str(project / "src")])
    known = any(entry.value == "masquerade.plugin" for entry in entry_points(group="pytest11"))
    plugin = [] if known else ["-p", "masquerade.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *words],
        cwd=project, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_its_tests_pass(project) -> None:
    status, printed = pytester(project, "tests")
    assert status == 0, printed
    assert "4 passed" in printed, "one test a machine, and two by hand"


def test_its_marks_are_marks(project) -> None:
    status, printed = pytester(project, "hardware", "-rs")
    assert status == 0, printed
    assert re.search(r"SKIPPED \[1\] hardware/test_hardware\.py:\d+: needs cuda sm_90\+; here: cuda ", printed)


@pytest.mark.parametrize(
    ("start", "ends", "says"),
    [
        ("pytest --require-hardware cuda", 1, "3 skipped, 1 error"),
        ("pytest --require-hardware rocm:gfx942", 1, "3 skipped, 1 error"),
        ("pytest --contracts", 0, "5 passed"),
        ("pytest pyproject.toml", 0, "5 passed"),
        ('pytest "pyproject.toml::imports/lazy/mypackage.ops@h100"', 0, "1 passed"),
    ],
)
def test_its_commands_do_what_it_says(project, start, ends, says) -> None:
    [line] = [line for block in blocks("sh") for line in block.splitlines() if line.partition(" #")[0].strip() == start]
    words = shlex.split(line, comments=True)[1:]
    if "--contracts" in words:
        words += ["src"]  # what it adds to the project's own tests
    if "--require-hardware" in words:
        words += ["hardware"]
    status, printed = pytester(project, *words)
    assert status == ends and says in printed, printed


def test_every_command_has_its_turn() -> None:
    shown = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    [cases] = [mark for mark in test_its_commands_do_what_it_says.pytestmark if mark.name == "parametrize"]
    assert sorted(shown) == sorted(start for start, _, _ in cases.args[1])
