"""Servers that wear a machine: what is asked of a machine again comes from one, and is what a bare fork gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import told
from processes import below, end

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Record, Stage
from masquerade.stage.dressed import MOST

BARE = getattr(sys, "_base_executable", sys.executable)

PARENT = "import os\ndef parent():\n    return os.getppid()\n"


@pytest.fixture
def bare() -> Iterator[Stage]:
    """A stage whose servers have dressed nobody yet, without torch."""
    with Stage(BARE) as stage:
        yield stage


@pytest.fixture
def dressed(bare: Stage, tmp_path: Path) -> Stage:
    """A stage in which a server wears the h200."""
    write(tmp_path, {"who.py": PARENT})
    one, two = (bare.run("who:parent", on="h200", path=[tmp_path]).result for _ in range(2))
    assert (one == bare.processes[0], two == bare.processes[0]) == (True, False)
    return bare


def alike(record: Record) -> object:
    return record.verdict, [(f.kind, f.what, str(f.blame), f.chain, f.stack) for f in record.findings], record.result


def test_one_server_wears_a_machine_for_all_its_checks(dressed: Stage, tmp_path: Path) -> None:
    parents = {dressed.run("who:parent", on="h200", path=[tmp_path]).result for _ in range(3)}
    assert len(parents) == 1 and dressed.processes[0] not in parents


def test_a_machine_that_will_be_asked_for_again_is_worn_from_the_first_check_on(bare: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"who.py": PARENT})
    path, names = (str(tmp_path),), ("h200", "b580", "h200", "b580", "spr")
    rows = [Check("who:parent", machines.resolve(name), path=path, label=str(n)) for n, name in enumerate(names)]
    found = {record.id: record.result for record in bare.run_all(rows)}
    assert found["0"] == found["2"] != found["1"] == found["3"] and bare.processes[0] not in (found["0"], found["1"])
    assert found["4"] == bare.processes[0]


def test_another_machine_and_another_environment_are_not_its(dressed: Stage, tmp_path: Path) -> None:
    write(
        tmp_path,
        {"says.py": "import os\ndef says():\n    return [os.environ.get('HOW'), os.path.exists('/dev/kfd')]\n"},
    )
    for on, how, want in [
        ("h200", "a", ["a", False]),
        ("h200", "b", ["b", False]),
        ("mi300x", "b", ["b", True]),
        ("h200", None, [None, False]),
    ]:
        for _ in range(3):
            record = dressed.run("says:says", on=on, env={"HOW": how}, path=[tmp_path])
            assert record.result == want, told(record)


def test_a_check_leaves_nothing_for_the_next(dressed: Stage, tmp_path: Path) -> None:
    mess = "import builtins, os, sys\nbuiltins.left = 1\nos.environ['LEFT'] = '1'\n"
    mess += "sys.path.append('left')\nos.chdir('/')\n"
    look = "import builtins, os, sys\ndef look():\n    return [hasattr(builtins, 'left'), 'LEFT' in os.environ, "
    look += "'left' in sys.path, os.getcwd() == '/', 'mess' in sys.modules, sys.path[0], sys.path[1] == sys.path[0]]\n"
    write(tmp_path, {"mess.py": mess, "look.py": look})
    dressed.run("mess", on="h200", path=[tmp_path])
    result = dressed.run("look:look", on="h200", path=[tmp_path]).result
    assert result == [False, False, False, False, False, str(tmp_path), False]


FAULTS = {
    "env.py": "import os\nos.environ['X'] = '1'\n",
    "thread.py": "import threading, time\ndef work():\n    time.sleep(9)\n"
    "threading.Thread(target=work, daemon=True).start()\n",
    "starts.py": "import subprocess\nsubprocess.run(['true'])\n",
    "foreign.py": "import threading\ndef work():\n    import foreign_vendor\n"
    "one = threading.Thread(target=work)\none.start()\none.join()\n",
    "foreign_vendor.py": "",
    "leaves.py": "raise SystemExit(3)\n",
    "fails.py": "import there_is_none\n",
}


@pytest.mark.parametrize("subject", sorted(name[:-3] for name in FAULTS))
def test_findings_are_those_of_a_bare_fork(dressed: Stage, tmp_path: Path, subject: str) -> None:
    write(tmp_path, FAULTS)
    check = Check(subject, machines.resolve("h200"), owners={"rocm": ("foreign_vendor",)}, path=(str(tmp_path),))
    first, *rest = (record for _ in range(3) for record in dressed.run_all([check]))
    assert subject == "foreign_vendor" or first.findings
    assert [alike(record) for record in rest] == [alike(first)] * 2


def test_a_subject_that_kills_its_server_disturbs_nobody(dressed: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"kills.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)\n"})
    record = dressed.run("kills", on="h200", path=[tmp_path])
    assert record.verdict == "crash", told(record)
    assert "the subject ended the process that started it" in record.notes, told(record)
    assert [dressed.run("json", on="h200").verdict for _ in range(3)] == ["ok"] * 3


def test_they_are_bounded(bare: Stage) -> None:
    for name in machines.names()[: MOST + 3]:
        for _ in range(2):
            assert bare.run("json", on=name).verdict == "ok"
    assert len(below(bare.processes[0])) == MOST


def test_a_check_that_runs_too_long_leaves_its_server_alone(dressed: Stage, tmp_path: Path) -> None:
    source = "import subprocess, time\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\ntime.sleep(60)\n"
    write(tmp_path, {"slow.py": source})
    before = below(dressed.processes[0])
    assert dressed.run("slow", on="h200", path=[tmp_path], timeout=1.0).verdict == "timeout"
    assert below(dressed.processes[0]) == before and len(before) == 1
    dressed.close()
    assert end(before) == set()
