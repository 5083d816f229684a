"""A scan of many modules, which plays each from two traces: what makes a trace wrong, or ends it, costs time alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trees import told

from conftest import PYTHON, write
from masquerade import machines
from masquerade.stage import Check, Record, Stage, fast, wire
from masquerade.stage.client import Server

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="calls cannot be told there")

COUNT = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fast, "WORTH_A_TRACE", 10)
    # What a confirmation would find is not what these tests are about.
    monkeypatch.setattr(fast.Agreement, "trusted", lambda self, check: True)
    monkeypatch.setattr(fast.Worker, "_agree", lambda self, check, flat, record: True)
    monkeypatch.setattr(fast, "CHUNK", 10_000)
    yield


def scanned(folder: Path, files: dict[str, str]) -> tuple[Stage, dict[str, Record], dict[str, Record]]:
    """The records of a scan of pkg, and those of forks of its modules' own."""
    leaves = {f"pkg/leaf{number:02}.py": "import pkg.base\n" for number in range(COUNT)}
    write(folder, {"pkg/__init__.py": "", "pkg/base.py": "", **leaves, **files})
    with Stage(PYTHON, torch=False) as stage:
        names = stage.discover("pkg", [str(folder)]).modules
        checks = [Check(name, machines.resolve("h100"), path=(str(folder),), settle=0.1) for name in names]
        found = {record.subject: record for record in stage.scan(checks)}
        return stage, found, {record.subject: record for record in stage.run_all(checks)}


def same(one: dict[str, Record], other: dict[str, Record]) -> None:
    assert {name: told(record) for name, record in one.items()} == {
        name: told(record) for name, record in other.items()
    }


def test_all_is_answered_by_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []
    flat = fast.Worker.flat
    monkeypatch.setattr(fast.Worker, "flat", lambda self, check: (alone.append(check.id), flat(self, check))[1])
    grown: list[int] = []
    monkeypatch.setattr(fast.Worker, "_grow", lambda self, left: grown.append(len(left)))
    _, found, own = scanned(tmp_path, {"pkg/base.py": "import os\nos.environ['PKG'] = '1'\nprint('hello')\n"})
    same(found, own)
    assert {record.verdict for name, record in own.items() if name != "pkg"} == {"env-mutation"}
    assert grown == []
    assert len(alone) <= 1  # the last chunk of clean ones has its confirmation


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("import pkg.base\npkg.base.CFG['mode'] = 'gpu'\n", "import pkg.base\nFOUND = pkg.base.CFG.get('mode')\n"),
        ("import pkg.base\npkg.base.Cfg.mode = 'gpu'\n", "import pkg.base\nFOUND = pkg.base.Cfg.mode\n"),
        (
            "import warnings\nwarnings.simplefilter('error')\n",
            "import warnings\nFOUND = warnings.filters[0][0] == 'error'\n",
        ),
        ("import builtins\nbuiltins.pkg = 1\n", "import builtins\nFOUND = hasattr(builtins, 'pkg')\n"),
    ],
    ids=["dict", "class", "filters", "builtins"],
)
@pytest.mark.parametrize("names", [("aa", "zz"), ("zz", "aa")])
def test_what_one_module_leaves_for_another(one: str, other: str, names: tuple[str, str], tmp_path: Path) -> None:
    files = {
        "pkg/base.py": "CFG = {}\n\n\nclass Cfg:\n    mode = None\n",
        f"pkg/{names[0]}.py": one,
        f"pkg/{names[1]}.py": other + "if FOUND:\n    import os\n    os.environ['PKG'] = '1'\n",
    }
    _, found, own = scanned(tmp_path, files)
    assert own[f"pkg.{names[1]}"].verdict == "ok"
    same(found, own)


#: Takes the findings out of each reply of the process that it is imported in.
FORGED = """\
    import json

    encode = json.dumps


    def dumps(value, **more):
        if isinstance(value, dict) and "events" in value:
            value = {**value, "events": value["events"][:1]}
        return encode(value, **more)


    json.dumps = dumps
"""


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos._exit(0)\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "import sys\nsys.exit(4)\n",
        "import json\njson.dumps = lambda *args, **more: '{}'\n",
        FORGED,
        "import builtins\nbuiltins.__import__ = lambda *args, _ask=builtins.__import__, **more: _ask(*args, **more)\n",
        "import sys\nsys.setprofile(lambda *args: None)\n",
        "import signal\nsignal.signal(signal.SIGTERM, lambda *args: None)\n",
        "import sys\nfor name in list(sys.modules):\n    if name.startswith('pkg.l'):\n        del sys.modules[name]\n",
        "import sys\ndel sys.modules[__name__]\n",
        "import os\nos.close(1)\nos.close(2)\n",
        "import sys\nsys.stdout = None\n",
        "import os\npid = os.fork()\nif not pid:\n    os._exit(0)\nos.waitpid(pid, 0)\n",
    ],
    ids=[
        "exit",
        "kill",
        "sys.exit",
        "json",
        "forged",
        "import",
        "profile",
        "signal",
        "modules",
        "itself",
        "close",
        "stdout",
        "fork",
    ],
)
@pytest.mark.parametrize("name", ["aa", "zz"])
def test_a_module_that_ends_or_spoils_a_trace(text: str, name: str, tmp_path: Path) -> None:
    _, found, own = scanned(tmp_path, {"pkg/base.py": "import os\nos.environ['PKG'] = '1'\n", f"pkg/{name}.py": text})
    assert set(found) == set(own)
    same(found, own)


def test_a_module_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setattr(fast, "SILENCE", 2.0)
    write(tmp_path, {"pkg/__init__.py": "", "pkg/hangs.py": "import time\nprint('now')\ntime.sleep(60)\n"})
    write(tmp_path, {f"pkg/leaf{number:02}.py": "" for number in range(COUNT)})
    with Stage(PYTHON, torch=False) as stage:
        names = stage.discover("pkg", [str(tmp_path)]).modules
        checks = [Check(name, machines.resolve("h100"), path=(str(tmp_path),)) for name in names]
        found = {record.subject: record for record in stage.scan([replace(check, timeout=2.0) for check in checks])}
    assert {name for name, record in found.items() if record.verdict != "ok"} == {"pkg.hangs"}
    assert found["pkg.hangs"].verdict == "timeout"
    assert len(found) == COUNT + 2


def test_a_server_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    ready = Server.wait_ready
    killed: list[int] = []

    def wait_ready(self: Server) -> object:
        out = ready(self)
        if len(killed) < 2:
            killed.append(self.process.pid)
            os.kill(self.process.pid, signal.SIGKILL)
        return out

    monkeypatch.setattr(Server, "wait_ready", wait_ready)
    _, found, own = scanned(tmp_path, {"pkg/base.py": "import os\nos.environ['PKG'] = '1'\n"})
    assert len(killed) == 2
    same(found, own)


def test_a_process_that_plays_says_that_it_goes_on(tmp_path: Path) -> None:
    """Else a large package would seem to hang in its last module."""
    write(tmp_path, {"pkg/__init__.py": "", **{f"pkg/leaf{number:02}.py": "" for number in range(COUNT)}})
    with Stage(PYTHON, torch=False) as stage:
        names = stage.discover("pkg", [str(tmp_path)]).modules
        checks = [Check(name, machines.resolve("h100"), path=(str(tmp_path),)) for name in names]
        server = stage.server(0)
        items = [[check.id, check.subject] for check in checks]
        wire.send(server.socket, {"trace": stage.request(checks[0]), "items": items})
        frames = []
        while not (frame := wire.receive(server.socket) or {"done": True}).get("done"):
            frames.append(frame)
    busy = [frame["busy"] for frame in frames if "busy" in frame]
    assert busy[: len(checks)] == [check.id for check in checks]
    assert busy[len(checks) :] and set(busy[len(checks) :]) == {""}
