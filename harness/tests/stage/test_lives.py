"""Who outlives whom.

A server that is killed loses no result, a tool that is killed leaves no process, nothing leaves a file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from cases import named, told
from processes import below, end

from conftest import write
from masquerade import machines
from masquerade.stage import Check, InterpreterError, Stage, StageError, SubjectError, client

HARNESS = Path(machines.__file__).parents[2]

#: The interpreter below a virtual environment: without torch its server starts at once.
BARE = getattr(sys, "_base_executable", sys.executable)

#: Says where it is, then sleeps.
SLEEPER = "import os, time\nopen(os.environ['SAY'], 'w').close()\ntime.sleep(60)\n"


def wait_for(file: Path, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not come"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def many(folder: Path, count: int) -> list[Check]:
    write(folder, {f"m{n}.py": f"import time; time.sleep(0.05); N = {n}\ndef get(): return N" for n in range(count)})
    return [Check(f"m{n}:get", machines.resolve("cpu"), path=(str(folder),)) for n in range(count)]


def test_a_server_that_is_killed_loses_no_result(tmp_path: Path) -> None:
    with Stage(BARE, jobs=2) as stage:
        results = []
        for place, record in enumerate(stage.run_all(many(tmp_path, 12))):
            results.append(record.result)
            assert record.verdict == "ok", told(record)
            if place in (2, 5):
                os.kill(stage._servers[place % 2].process.pid, signal.SIGKILL)
    assert sorted(results) == list(range(12))


def test_a_server_that_is_killed_between_two_runs_is_replaced(tmp_path: Path) -> None:
    with Stage(BARE) as stage:
        (first, *rest) = many(tmp_path, 3)
        assert [record.result for record in stage.run_all([first])] == [0]
        stage._servers[0].process.kill()
        stage._servers[0].process.wait()
        assert [record.result for record in stage.run_all(rest)] == [1, 2]


def test_a_subject_that_kills_its_server_is_a_crash_and_disturbs_nobody(tmp_path: Path) -> None:
    write(tmp_path, {"kills.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)\n"})
    with Stage(BARE) as stage:
        record = stage.run("kills", path=[tmp_path])
        assert record.verdict == "crash", told(record)
        assert "the subject ended the process that started it" in record.notes, told(record)
        assert stage.run("json").verdict == "ok"


@pytest.mark.parametrize("before", [0, 2], ids=["bare", "dressed"])
def test_a_subject_that_stops_its_server_holds_nobody_up(tmp_path: Path, monkeypatch, before: int) -> None:
    monkeypatch.setattr(client, "SILENCE", 2.0)
    write(tmp_path, {"stops.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)\n"})
    with Stage(BARE) as stage:
        assert [stage.run("json").verdict for _ in range(before)] == ["ok"] * before
        started = time.monotonic()
        record = stage.run("stops", path=[tmp_path], timeout=1.0)
        assert record.verdict == "crash" and time.monotonic() - started < 30, told(record)
        assert stage.run("json").verdict == "ok"


def test_an_abandoned_scan_ends_all(tmp_path: Path) -> None:
    slow = {f"slow/m{n}.py": "import time; time.sleep(0.2)\n" for n in range(60)}
    write(tmp_path, {**slow, "slow/__init__.py": "", "slow/fails.py": "raise KeyError\n"})
    names = ["fails", *(f"m{n}" for n in range(60))]
    checks = [Check(f"slow.{name}", machines.resolve("cpu"), path=(str(tmp_path),)) for name in names]
    with Stage(BARE, jobs=2) as stage:
        records = stage.scan(checks)
        assert next(records).verdict == "import-error"
        servers = {pid for server in stage.processes for pid in (server, *below(server))}
        assert len(servers) >= 4
        records.close()
        assert end(servers) == set() and stage.processes == ()
        assert stage.run("json").verdict == "ok"


def test_an_abandoned_run_ends_its_child(tmp_path: Path) -> None:
    write(tmp_path, {"quick.py": "", "sleeper.py": SLEEPER})
    said = tmp_path / "said"
    with Stage(BARE, jobs=2) as stage:
        checks = [
            Check(name, machines.resolve("cpu"), path=(str(tmp_path),), env={"SAY": str(said)})
            for name in ("sleeper", "quick")
        ]
        records = stage.run_all(checks)
        assert next(records).subject == "quick"
        wait_for(said)
        started = {pid for server in stage._servers for pid in below(server.process.pid)}
        assert started
        records.close()
        assert end(started) == set()
        assert stage.run("quick", path=[tmp_path]).verdict == "ok"


TOOL = """\
import sys
from masquerade.stage import Stage
with Stage({python!r}) as stage:
    for subject in {before} + ["sleeper"]:
        stage.run(subject, path=[{folder!r}], env={{"SAY": {said!r}}})
"""


@pytest.mark.parametrize("before", [[], ["json", "json"]], ids=["bare", "dressed"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_tool_that_is_killed_leaves_no_process(tmp_path: Path, number: signal.Signals, before: list[str]) -> None:
    child = "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\n" + SLEEPER
    write(tmp_path, {"sleeper.py": child})
    said = tmp_path / "said"
    source = TOOL.format(python=BARE, folder=str(tmp_path), said=str(said), before=before)
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONPATH": str(HARNESS)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(said, process)
        started = below(process.pid)
        assert len(started) == (4 if before else 3)  # the servers, their child, and that one's sleep
        process.send_signal(number)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert end(started) == set()


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    with Stage(BARE) as stage:
        for case in ("i09", "i17", "o01"):
            assert len(list(stage.run_all([named("hostile", case).check(world) for world in ("cuda", "rocm")]))) == 2
        assert list(folder.iterdir())  # the machines' tools
    assert list(folder.iterdir()) == []


def test_an_interpreter_that_is_not_there() -> None:
    with Stage("/no/such/python") as stage, pytest.raises(StageError, match="cannot start /no/such/python"):
        stage.run("json")


@pytest.mark.parametrize(
    ("program", "says"),
    [("/bin/false", "it ended with status 1"), ("/bin/ls", ".*No such file or directory"), ("/bin/echo", "-c print.*")],
)
def test_an_interpreter_that_is_none(program: str, says: str) -> None:
    told = rf"^{program} does not execute Python: {says}; give --python an interpreter$"
    with Stage(program) as stage, pytest.raises(InterpreterError, match=told) as caught:
        stage.run("json")
    assert len(str(caught.value)) < 200


def test_an_older_python_is_wrong_usage_and_a_broken_server_is_not(tmp_path: Path) -> None:
    for words, kind in (("Python 3.8 is not supported", InterpreterError), ("out of memory", StageError)):
        fake = write(
            tmp_path, {"python": f"#!/bin/sh\ncase $2 in print*) echo 42;; *) echo {words} >&2; exit 1;; esac\n"}
        )
        (fake / "python").chmod(0o755)
        with (
            Stage(str(fake / "python")) as stage,
            pytest.raises(StageError, match=f"3.10 or newer: {words}$") as caught,
        ):
            stage.run("json")
        assert type(caught.value) is kind


def test_a_server_with_a_second_thread_refuses_to_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    write(tmp_path, {"sitecustomize.py": source})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(BARE) as stage, pytest.raises(StageError, match=r"refuses to start: the server has \d threads"):
        stage.run("json")


def test_a_server_in_which_a_device_is_open_refuses_to_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import torch\ntorch.cuda.is_initialized = lambda: True\n"
    write(tmp_path, {"sitecustomize.py": source})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage() as stage, pytest.raises(StageError, match=r"torch\.cuda is initialized after `import torch` alone"):
        stage.run("json")


def test_a_torch_that_cannot_be_imported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "import torch.part\nraise OSError('libcudart.so.13: not found')"
    write(tmp_path, {"torch/__init__.py": broken, "torch/part.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(BARE) as stage:
        assert stage.facts["torch"] is None
        assert stage.facts["torch_error"] == "OSError: libcudart.so.13: not found"
        record = stage.run("torch")
    assert (record.verdict, record.worst.what) == ("import-error", "OSError")


def test_the_machine_here_has_no_packages_to_vary(one: Stage) -> None:
    assert one.run("json", on="here").verdict == "ok"
    with pytest.raises(SubjectError, match="no module can be added, hidden or replaced"):
        one.run("json", on="here", present=("aiter",))


def test_a_child_tells_its_own_memory_where_it_is_asked_for(one: Stage, tmp_path: Path) -> None:
    assert one.run("json").private_bytes is None
    small = one.run("json", measure=True).private_bytes
    write(tmp_path, {"much.py": "x = b'1' * (32 << 20)"})
    much = one.run("much", path=[tmp_path], measure=True).private_bytes
    assert 0.5e6 < small < 10e6 and much > small + (31 << 20)


def test_the_variables_of_a_test_run_stay_outside(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"look.py": "import os\ndef names(): return sorted(n for n in os.environ if 'PYTEST' in n)"})
    assert "PYTEST_CURRENT_TEST" in os.environ
    assert one.run("look:names", path=[tmp_path]).result == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_killed_as_it_starts_is_started_again(tmp_path: Path, monkeypatch, number: int) -> None:
    once = f"""
import os, signal
if not os.path.exists({str(tmp_path / "once")!r}):
    open({str(tmp_path / "once")!r}, "w").close()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), {int(number)})
"""
    write(tmp_path, {"sitecustomize.py": once})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(BARE) as stage:
        assert stage.run("json").verdict == "ok"
    assert (tmp_path / "once").exists()


def test_a_server_that_is_killed_whenever_it_starts_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = f"import os\nopen({str(tmp_path / 'starts')!r}, 'a').write('x')\nos.kill(os.getpid(), 9)\n"
    write(tmp_path, {"sitecustomize.py": counts})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Stage(BARE) as stage, pytest.raises(StageError, match="it ended with status -9 and said nothing"):
        stage.run("json")
    assert (tmp_path / "starts").read_text() == "xx"


def test_a_search_goes_on_with_a_new_server(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/a.py": ""})
    with Stage(BARE) as stage:
        assert stage.run("json").verdict == "ok"
        (first,) = stage.processes
        os.kill(first, signal.SIGKILL)
        assert stage.discover("pkg", [str(tmp_path)]).modules == ("pkg", "pkg.a")
        assert stage.processes != (first,)
