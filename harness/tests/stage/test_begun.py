"""Modules that each check imports first: once for all checks that are alike, where that leaves only modules behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cases import told

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Record, Stage

BARE = getattr(sys, "_base_executable", sys.executable)

SUBJECT = """
import os, sys
import big

def who():
    mine, big.changed = getattr(big, "changed", None), os.getpid()
    return [big.PID, os.getpid(), mine, sys.path[:2], "big" in LOADED]

LOADED = frozenset(sys.modules)
"""


@pytest.fixture
def bare() -> Iterator[Stage]:
    with Stage(BARE) as stage:
        yield stage


def checks(root: Path, big: str, count: int = 3, **options: object) -> list[Check]:
    write(root, {"big.py": f"import os\nPID = os.getpid()\n{big}", "subject.py": SUBJECT})
    one = Check("subject:who", machines.resolve("h200"), path=(str(root),), first=("big",), **options)  # type: ignore[arg-type]
    return [replace(one, label=str(number)) for number in range(count)]


def alike(record: Record) -> object:
    return record.verdict, [(f.kind, f.what, f.phase, str(f.blame), f.chain) for f in record.findings], record.output


def test_they_are_imported_once_and_no_check_sees_another(bare: Stage, tmp_path: Path) -> None:
    found = [record.result for record in bare.run_all(checks(tmp_path, ""))]
    makers, own, seen, paths, loaded = zip(*found, strict=True)
    assert len(set(makers)) == 1 and len(set(own)) == 3 and makers[0] not in own
    assert seen == (None,) * 3 and loaded == (True,) * 3
    [alone] = bare.run_all(checks(tmp_path, "", 1, env={"A": "1"}))
    assert alone.result[0] == alone.result[1] and list(paths) == [alone.result[3]] * 3


DIRTY = {
    "prints": "print('hello')",
    "sets a variable": "os.environ['BIG'] = '1'",
    "leaves a thread": "import threading, time; threading.Thread(target=time.sleep, args=(20,), daemon=True).start()",
    "leaves a file open": "FILE = open(__file__)",
    "runs a program": "os.system('true')",
    "changes how checks are served": "import json; json.dumps = lambda *a, **k: '{}'",
    "does not exist": "import there_is_no_such_module",
    "leaves": "import sys; sys.exit(3)",
}


@pytest.mark.parametrize("how", DIRTY)
def test_what_leaves_more_behind_is_done_by_each_check_for_itself(bare: Stage, tmp_path: Path, how: str) -> None:
    rows = checks(tmp_path, DIRTY[how], settle=0.1)
    found = list(bare.run_all(rows))
    [alone] = bare.run_all([replace(rows[0], env={"A": "1"})])
    assert [alike(record) for record in found] == [alike(alone)] * 3, told(found[0])
    results = [record.result for record in found if record.result]
    assert all(isinstance(result, list) and result[0] == result[1] for result in results if isinstance(result, list))
    if how == "does not exist":
        assert [record.verdict for record in found] == ["import-error"] * 3


def test_who_asks_to_be_told_of_forks_is_not_told_of_the_servers(bare: Stage, tmp_path: Path) -> None:
    big = "changed = None\ndef count(): global changed; changed = (changed or 0) + 1\n"
    big += "os.register_at_fork(before=count, after_in_child=count)"
    found = [record.result for record in bare.run_all(checks(tmp_path, big))]
    assert len({result[0] for result in found}) == 1 and [result[2] for result in found] == [None] * 3


def test_where_reads_are_told_nothing_is_shared(bare: Stage, tmp_path: Path) -> None:
    bare.reads = True
    found = [record.result for record in bare.run_all(checks(tmp_path, ""))]
    assert all(result[0] == result[1] for result in found)


def test_many_imports_with_them_are_made_as_few_are(bare: Stage, tmp_path: Path) -> None:
    rows = [replace(check, subject="subject") for check in checks(tmp_path, "print('once each')", 30)]
    assert {record.output for record in bare.scan(rows)} == {"once each\n"}
