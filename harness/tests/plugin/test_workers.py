"""Workers of pytest-xdist make each check once between them, and tell each other what came of it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from masquerade import contracts
from masquerade.pytest_plugin import results, workers
from masquerade.pytest_plugin.workers import Shared, open_folder, remove_folder
from masquerade.stage import StageError
from masquerade.stage.record import Finding, Line, Record, default_levels

MODULES = {"one by one": 12, "blocks": 60}


def worker(folder: str = "") -> Any:
    """The configuration of a worker that was given a folder, or of a run without workers."""
    return SimpleNamespace(workerinput={"masquerade_shared": folder}) if folder else SimpleNamespace()


def record(id: str) -> Record:
    line = Line("pkg/ops.py", 3, "import vendor", "pkg.ops")
    finding = Finding("forbidden-import", "vendor", "import", line, (line,), ("pkg/ops.py:3",), "says why")
    return Record(id, "pkg.ops", "import", "h100", "cuda", (finding,), 0.5, output="words", notes=("a note",))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    config, given = SimpleNamespace(stash=pytest.Stash()), {}
    open_folder(config, given)  # type: ignore[arg-type]
    yield given["masquerade_shared"]
    remove_folder(config)  # type: ignore[arg-type]
    assert not Path(given["masquerade_shared"]).exists()


def test_a_record_that_one_keeps_is_found_by_another(folder: str) -> None:
    Shared(worker(folder), Path("a.toml")).keep(record("imports/lazy/pkg.ops@h100"))
    other = Shared(worker(folder), Path("a.toml"))
    assert other.find("imports/lazy/pkg.ops@h100", default_levels()) == record("imports/lazy/pkg.ops@h100")
    assert other.find("imports/lazy/pkg.ops@mi355x", default_levels()) is None
    assert Shared(worker(folder), Path("b.toml")).find("imports/lazy/pkg.ops@h100", default_levels()) is None


def test_another_interpreter_checks_for_itself(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Shared(worker(folder), Path("a.toml")).keep(record("one"))
    monkeypatch.setattr("sys.executable", "/another/python")
    other = Shared(worker(folder), Path("a.toml"))
    assert other.find("one", default_levels()) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "one"}', "[" * 100_000])
def test_what_is_no_record_is_made_again(folder: str, text: str) -> None:
    shared = Shared(worker(folder), Path("a.toml"))
    shared.keep(record("one"))
    [file] = Path(folder).glob("record-*")
    file.write_text(text)
    assert shared.find("one", default_levels()) is None


def test_a_record_of_another_check_is_none_of_this_one(folder: str) -> None:
    shared = Shared(worker(folder), Path("a.toml"))
    shared.keep(record("one"))
    shared.keep(record("two"))
    one, two = Path(folder).glob("record-*")
    one.write_text(two.read_text())
    assert [shared.find(id, default_levels()) for id in ("one", "two")].count(None) == 1


def test_checks_that_one_worker_makes_are_waited_for(folder: str) -> None:
    first, second = (Shared(worker(folder), Path("a.toml")) for _ in range(2))
    done: list[str] = []

    def other() -> None:
        with second.alone("block"):
            done.append("second")

    thread = threading.Thread(target=other)
    with first.alone("block"):
        thread.start()
        thread.join(0.3)
        done.append("first")
    thread.join(30)
    assert done == ["first", "second"]


def test_a_worker_that_was_killed_holds_nobody_up(folder: str) -> None:
    shared = Shared(worker(folder), Path("a.toml"))
    pid = os.fork()
    if not pid:
        with shared.alone("block"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    with shared.alone("block"):
        pass


def test_where_no_file_can_be_locked_nobody_waits(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(workers.fcntl, "flock", flock)
    with Shared(worker(folder), Path("a.toml")).alone("block"):
        pass


def test_a_check_that_breaks_off_leaves_the_stage_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimpleNamespace(more_to_come=False)
    seen: list[bool] = []

    def run(*_: object) -> Any:
        seen.append(stage.more_to_come)
        raise StageError("the server is gone")

    monkeypatch.setattr(results, "shared_stage", lambda python: stage)
    monkeypatch.setattr(contracts, "run", run)
    check = SimpleNamespace(machine=SimpleNamespace(id="h100"), levels={}, action="call")
    cases: Any = [SimpleNamespace(id=id, check=check) for id in ("one", "two")]
    config: Any = SimpleNamespace(workerinput={"workercount": 2})
    with pytest.raises(StageError):
        results.Results(SimpleNamespace(python=""), Path("a.toml"), config, lambda: cases).record(cases[0])  # type: ignore[arg-type]
    assert seen == [True] and not stage.more_to_come


def test_without_workers_nothing_is_shared() -> None:
    shared = Shared(worker(), Path("a.toml"))
    with shared.alone("block"), shared.alone("block"):
        pass
    shared.keep(record("one"))
    assert shared.find("one", default_levels()) is None


def test_the_folder_is_the_users_alone(folder: str) -> None:
    assert Path(folder).stat().st_mode & 0o777 == 0o700


def test_the_folder_of_a_killed_run_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config, given = SimpleNamespace(stash=pytest.Stash()), {}
    pid = os.fork()
    if not pid:
        open_folder(config, given)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    [left] = tmp_path.glob("masquerade-*")
    open_folder(config, given)  # type: ignore[arg-type]
    assert not left.exists() and Path(given["masquerade_shared"]).exists()
    remove_folder(config)  # type: ignore[arg-type]


def test_where_no_folder_can_be_made_nothing_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    config, given = SimpleNamespace(stash=pytest.Stash()), {}
    open_folder(config, given)  # type: ignore[arg-type]
    remove_folder(config)  # type: ignore[arg-type]
    assert given == {}


@pytest.mark.parametrize("count", MODULES.values(), ids=MODULES.keys())
def test_two_workers_make_each_check_once(count: int, pytester: pytest.Pytester, run: Any) -> None:
    pytest.importorskip("xdist")
    counted = pytester.path / "counted"
    body = f"with open({str(counted)!r}, 'a') as file:\n    file.write(__name__ + '\\n')\n"
    modules = {f"pkg/m{number}": f"import pkg._shared\n{body}" for number in range(count)}
    pytester.makepyfile(**{"pkg/__init__": "", "pkg/_shared": body, **modules})
    pytester.makepyprojecttoml(
        """
        [tool.masquerade]
        machines = ["h100", "mi355x"]

        [[tool.masquerade.contracts]]
        name = "lazy"
        kind = "imports"
        modules = ["pkg.*"]
        exclude = ["pkg._shared"]
        """
    )
    result = run("--contracts", "-n", "2", "pyproject.toml")
    result.assert_outcomes(passed=2 * count + 1)
    told = counted.read_text().splitlines()
    made = [name for name in told if name != "pkg._shared"]
    assert set(made) == {f"pkg.m{number}" for number in range(count)}
    # The last ones may be under way on one worker as the other wants them.
    assert 2 * count <= len(made) <= 2 * count + 4
    # What a block's imports share is imported once, and in the forks that confirm some of them.
    assert len(told) - len(made) < len(made) / 4 or count == MODULES["one by one"]


def test_each_configuration_makes_its_own_checks_alone(pytester: pytest.Pytester, run: Any) -> None:
    body = "import os\nwith open(os.environ['COUNTED'], 'a') as file:\n    file.write(__name__ + '\\n')\n"
    pytester.makepyfile(**{"one/pkg1": body, "two/pkg2": body})
    counted = pytester.path / "counted"
    for number, name in enumerate(("one", "two"), start=1):
        (pytester.path / name / "masquerade.toml").write_text(
            f'machines = ["h100", "mi355x"]\npath = ["."]\nenv = {{ COUNTED = "{counted}" }}\n'
            f'[[contracts]]\nname = "lazy"\nkind = "imports"\nmodules = ["pkg{number}"]\n'
        )
    run("one/masquerade.toml", "two/masquerade.toml").assert_outcomes(passed=6)
    assert sorted(counted.read_text().splitlines()) == ["pkg1", "pkg1", "pkg2", "pkg2"]
