"""The child side in other interpreters: 3.10 and newer, where masquerade is not installed and torch may not be."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import WORLDS, Case, cases, faults, matches, named, told

from conftest import PYTHON, other_python, write
from masquerade.stage import Stage, StageError
from masquerade.stage.client import blind
from masquerade.stage.run_as import run_as

#: The interpreter below a virtual environment, without torch.
BARE = getattr(sys, "_base_executable", sys.executable)


def uses_torch(case: Case) -> bool:
    sources = [file.read_text(errors="replace") for file in case.folder.rglob("*.py")]
    return any("torch" in source or "triton" in source for source in sources)


#: These wait long; so do those that end by the time limit. Limits and waits are the server's, and the same code.
LONG = ("i07", "i51", "i73")
PLAIN = [
    case
    for case in cases("hostile", "hio")
    if not uses_torch(case) and case.expect["platforms"]["cpu"] != "timeout" and not case.name.startswith(LONG)
]


@pytest.fixture(scope="module", params=["3.10", "3.12", "3.13"])
def other(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with Stage(other_python(request.param), jobs=2) as stage:
        assert stage.facts["python"].startswith(request.param)
        yield stage


def test_masquerade_is_not_installed_there(other: Stage) -> None:
    done = subprocess.run([other.python, "-c", "import masquerade"], cwd="/", capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr


def test_the_positive_control_is_seen(other: Stage) -> None:
    record = other.control()
    assert not blind(record), told(record)


def test_the_handed_cases_without_torch(other: Stage) -> None:
    chosen = [case for case in cases("cases", "abcdes") if not uses_torch(case)]
    # Some stand-ins of vendors ask torch; what they do to a device cannot be seen without it.
    chosen = [case for case in chosen if "vendor_rocm" not in str(case.expect.get("platforms"))]
    assert len(chosen) >= 9
    wrong = []
    for case in chosen:
        by_id = {case.check(world).id: world for world in WORLDS}
        for record in other.run_all([case.check(world) for world in WORLDS]):
            wrong += [f"{case.name}: {fault}: {told(record)}" for fault in faults(case, by_id[record.id], record)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_hostile_subjects_without_torch(other: Stage, case: Case) -> None:
    by_id = {case.check(world).id: world for world in ("cuda", "cpu")}
    for record in other.run_all([case.check(world) for world in ("cuda", "cpu")]):
        world = by_id[record.id]
        assert any(matches(record, verdict) for verdict in case.fair(world)), (case.fair(world), told(record))
    (after,) = other.run_all([named("hostile", "o01").check("cpu")])
    assert after.verdict == "ok", told(after)


def test_modules_are_found_by_that_interpreter(other: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/a.py": ""})
    assert other.discover("pkg", [str(tmp_path)]).modules == ("pkg", "pkg.a")


def test_threads_are_noted_in_every_version(other: Stage, tmp_path: Path) -> None:
    starts = {
        "high": "import threading\nthreading.Thread(target=print).start()\n",
        "low": "import _thread\n_thread.start_new_thread(print, ())\n",
    }
    write(tmp_path, {f"{name}.py": source for name, source in starts.items()})
    for name in starts:
        record = other.run(name, path=[tmp_path])
        assert [(f.kind, f.blame.line) for f in record.findings] == [("thread", 2)], told(record)


def test_fresh_interpreters(other: Stage) -> None:
    with Stage(other.python, isolation="fresh", jobs=2) as fresh:
        case = named("cases", "b02")
        for record in fresh.run_all([case.check(world) for world in WORLDS]):
            world = record.platform if record.platform in ("cuda", "rocm", "xpu") else "cpu"
            assert faults(case, world, record) == []


def test_a_command_of_that_interpreter_wears_the_machine(other: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    source = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)))"
    result = run_as("h200", [other.python, "-c", source])
    assert (result.exit_status, capfd.readouterr().out) == (0, "NVIDIA H200\n")


@pytest.mark.parametrize("isolation", ["fork", "fresh"])
@pytest.mark.parametrize("version", ["2.7", "3.8", "3.9"])
def test_an_older_python_is_told_in_one_line(version: str, isolation: str) -> None:
    python = other_python(version)
    told = rf"which must be a Python of 3.10 or newer: Python {re.escape(version)} is not supported$"
    with Stage(python, isolation=isolation) as stage, pytest.raises(StageError, match=told):
        stage.run("json")


@pytest.mark.parametrize(("version", "good"), [("1.13.1", False), ("2.10.0+cu128", False), ("2.11.0a0+git1", True)])
def test_an_older_torch_is_told_in_one_line(tmp_path: Path, monkeypatch, version: str, good: bool) -> None:
    # Not the real one: only its version is looked at. The fakes have their own tests on each release.
    write(
        tmp_path, {f"torch-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"}
    )
    write(tmp_path, {"torch/__init__.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(BARE, isolation="fresh") as stage:
        if good:
            assert stage.facts["torch"] == version
        else:
            with pytest.raises(
                StageError, match=rf"refuses to start: torch {re.escape(version)} is not supported, 2.11"
            ):
                stage.run("json")


def test_a_preloaded_torch_that_is_older_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = "import torch\ntorch.__version__ = '2.10.0'\n"
    write(tmp_path, {"sitecustomize.py": real})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(PYTHON) as stage, pytest.raises(StageError, match=r"torch 2\.10\.0 is not supported, 2\.11 or newer is"):
        stage.run("json")
