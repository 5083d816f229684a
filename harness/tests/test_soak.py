"""The soak tells what grew, was lost or was left: it is run in small, and given what it must call wrong."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
BARE = getattr(sys, "_base_executable", sys.executable)

pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="not run from the repository")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("faults")


def test_many_checks_in_small(tmp_path: Path) -> None:
    words = ["--python", BARE, "--checks", "100", "--json", str(tmp_path / "soak.json")]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "soak.py"), *words], capture_output=True, text=True, timeout=300, check=False
    )
    figures = json.loads((tmp_path / "soak.json").read_text())["soak"]
    # So few that servers are still on their way to wear all machines: growth is not judged here.
    assert done.returncode in (0, 1), done.stderr
    assert (figures["checks"], figures["wrong"], figures["files after"]) == (100, {}, 0), done.stdout
    assert figures["last"]["zombies"] == 0 and set(figures["over"]) <= {
        "processes", "threads", "descriptors", "megabytes", "files"
    }  # fmt: skip


def run(faults: ModuleType, results: dict[str, str] | None = None, interrupted: bool = False, err: str = "") -> Any:
    return SimpleNamespace(err=err, results=lambda: (faults.WANTED if results is None else results, interrupted))


def fault(faults: ModuleType, status: tuple[int, ...] = (1,), whole: bool = True) -> Any:
    return faults.Fault("one", status, whole, 0.0, faults.nothing)


def test_a_good_run_is_good(faults: ModuleType) -> None:
    assert faults.judged(run(faults), fault(faults), 1) == []
    part = dict(list(faults.WANTED.items())[:5])
    assert faults.judged(run(faults, part, interrupted=True), fault(faults, (143,), False), 143) == []


def test_what_is_wrong_is_called_so(faults: ModuleType) -> None:
    part = dict(list(faults.WANTED.items())[:5])
    lie = {**faults.WANTED, "import:pkg.bad@h100": "ok"}
    ended = fault(faults, (143, 0), False)
    assert faults.judged(run(faults), ended, 0) == ["status 0"]
    assert faults.judged(run(faults), fault(faults), 3) == ["status 3"]
    assert faults.judged(run(faults, part, True), fault(faults), 1) == ["lost results"]
    assert faults.judged(run(faults, part, False), ended, 143) == ["a part that calls itself whole"]
    assert faults.judged(run(faults, lie), fault(faults), 1) == ["wrong verdict"]
    assert faults.judged(run(faults, err="Traceback (most recent call last)"), fault(faults), 1) == ["traceback"]


def test_each_kind_of_fault_comes_and_the_seed_gives_the_same(faults: ModuleType) -> None:
    def drawn(seed: int) -> list[tuple[str, float]]:
        return [(fault.name, fault.moment) for fault in faults.faults(seed, 26, 4.0)]

    assert drawn(1) == drawn(1) != drawn(2)
    names = [name for name, _ in drawn(1)]
    assert {names.count(name) for name in names} == {2}
    assert {"SIGKILL to a server", "SIGTERM to the tool", "the disk full", "two side by side"} <= set(names)
