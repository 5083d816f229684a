"""Fixtures that all folders share: stages with their servers, packages made on the spot, questions to a machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from masquerade.stage import Record, Stage

#: The interpreter that subjects run in.
PYTHON = os.environ.get("MASQUERADE_TEST_PYTHON", sys.executable)

#: The interpreters whose torch the fakes are tested on, separated as a PATH is: builds for the CPU, CUDA and ROCm.
_LISTED = os.environ.get("MASQUERADE_TEST_PYTHONS", "").split(os.pathsep)
PYTHONS = [entry for entry in _LISTED if entry] or [PYTHON]


# A shell starts what it runs in the background with SIGINT ignored, and every process below it inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test says itself where results are kept, if they should be: it may not depend on what another run left.
os.environ["MASQUERADE_CACHE"] = "off"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes many minutes; runs only where it is asked for, with -m slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in config.getoption("markexpr"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below `root`; text loses its common indentation."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return root


def other_python(version: str) -> str:
    """An interpreter of another version, by its name on PATH or among those of pyenv. Skips where there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob(f"versions/{version}.*/bin/python{version}"))
    for candidate in (*map(str, found), shutil.which(f"python{version}")):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"no Python {version} here")


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """The fork server, two at a time, beside the torch of MASQUERADE_TEST_PYTHON, this interpreter without it."""
    with Stage(PYTHON, jobs=2) as stage:
        yield stage


@pytest.fixture(scope="session")
def one() -> Iterator[Stage]:
    """A stage with one server: the next check meets the server that the check before it met."""
    with Stage(PYTHON) as stage:
        yield stage


@pytest.fixture(scope="session")
def fresh() -> Iterator[Stage]:
    """Fresh interpreters, two at a time."""
    with Stage(PYTHON, isolation="fresh", jobs=2) as stage:
        yield stage


@pytest.fixture(scope="session", params=PYTHONS, ids=lambda python: Path(python).parents[1].name)
def torch_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage for each interpreter of MASQUERADE_TEST_PYTHONS. Skips where one has no torch."""
    with Stage(request.param) as stage:
        if not stage.facts["torch"]:
            pytest.skip(f"{request.param} has no torch")
        yield stage


Run = Callable[..., Record]


@pytest.fixture
def run(one: Stage, tmp_path: Path) -> Run:
    """Import `subject` on `on`, after writing `source` as its module, and give the record."""

    def run(source: str | bytes, subject: str = "subject", on: str = "cpu", **options: Any) -> Record:
        module = subject.partition(":")[0]
        write(tmp_path, {module.replace(".", "/") + ".py": source})
        return one.run(subject, on=on, path=[tmp_path], **options)

    return run


@pytest.fixture
def ask(torch_stage: Stage, tmp_path: Path) -> Callable[..., Any]:
    """Call `answer()` of `source` on a machine, beside torch; gives what it returned, fails with the child's words."""

    def ask(source: str, on: str = "h200", **options: Any) -> Any:
        write(tmp_path, {"subject.py": source})
        record = torch_stage.run("subject:answer", on=on, path=[tmp_path], **options)
        grave = [f for f in record.findings if f.kind in ("import-error", "call-mismatch", "crash", "exit", "timeout")]
        assert not grave, [(f.kind, f.what, f.message, f.stack[-3:]) for f in grave] + [record.output[-2000:]]
        return record.result

    return ask
