"""Projects with tox environments or contracts, and the checkers of pipelines."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conftest import write
from masquerade.cli import main

#: Set where every checker is installed: there a missing one is a failure, not a skip.
_ALL = "MASQUERADE_TEST_CHECKERS"


def _missing(name: str) -> None:
    if os.environ.get(_ALL):
        pytest.fail(f"{name} is not installed, and {_ALL} is set")
    pytest.skip(f"{name} is not installed here; the environment ci-lint has it")


@pytest.fixture
def checker() -> Callable[..., str]:
    """Run a checker; gives what it said. Fails where it finds something."""

    def run(name: str, *words: object) -> str:
        folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        program = shutil.which(name, path=folders)
        if program is None:
            _missing(name)
        done = subprocess.run(
            [str(program), *map(str, words)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{name} {' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture
def yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        _missing("PyYAML")


@pytest.fixture
def needs_tox() -> None:
    if not (shutil.which("tox") or shutil.which("tox", path=str(Path(sys.executable).parent))):
        _missing("tox")


@pytest.fixture
def tox_project(tmp_path: Path, needs_tox: None) -> Path:
    return write(tmp_path, {
        "tox.ini": """\
            [tox]
            env_list = lint, py3{11,12}-{cpu,cuda}
            labels =
                quick = lint
            no_package = true
            [testenv]
            commands = python -c pass
            [testenv:gpu]
            commands = python -m pytest {posargs}
            """,
    })  # fmt: skip


@pytest.fixture
def contracts_project(tmp_path: Path) -> Path:
    names = ("lazy-core", "lazy.ops", "calls_1")
    tables = "".join(f'[[contracts]]\nname = "{n}"\nkind = "imports"\nmodules = ["pkg.*"]\n' for n in names)
    return write(tmp_path, {"masquerade.toml": tables, "pkg/__init__.py": ""})


@pytest.fixture
def ci() -> Callable[..., Result]:
    """Call `masquerade ci`."""
    return lambda *words: CliRunner().invoke(main, ["ci", *map(str, words)], prog_name="masquerade")
