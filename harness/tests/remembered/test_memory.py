"""A result is taken from an earlier scan only where a scan of its own would give the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.remembered import open_memory
from masquerade.remembered.store import Store
from masquerade.stage import Check, Record, Stage, fast

FILES = {
    "pkg/__init__.py": "",
    "pkg/base.py": "VALUE = 1\n",
    "pkg/middle.py": "from pkg import base\n",
    "pkg/top.py": "from pkg import middle\n",
    "pkg/alone.py": "import json\n",
    "pkg/data.py": "import json\nROWS = json.load(open(__file__.replace('data.py', 'rows.json')))\n",
    "pkg/rows.json": "[]",
    "pkg/maybe.py": "try:\n    from pkg import extra\nexcept ImportError:\n    extra = None\n",
    "pkg/elsewhere.py": "try:\n    import not_yet_there\nexcept ImportError:\n    pass\n",
    "pkg/bad.py": "import ctypes, os\nos.environ['PKG_WAS_HERE'] = '1'\n",
}

#: The modules of the package, in the order of their names.
MODULES = tuple(
    sorted(name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES if name[-3:] == ".py")
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "results"))
    return write(tmp_path / "project", FILES)


@pytest.fixture(scope="module")
def bare() -> Iterator[Stage]:
    """A stage without torch: it starts at once."""
    with Stage(torch=False) as stage:
        yield stage


class Counting:
    """A stage that counts the checks that it makes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.made: list[str] = []
        self.reads = False

    @property
    def facts(self) -> dict[str, object]:
        return self.stage.facts

    def scan(self, checks: list[Check]) -> Iterator[Record]:
        self.stage.reads = self.reads
        self.made += [check.subject for check in checks]
        yield from self.stage.scan(checks)


class Editing:
    """A stage beside which a file is written, after each check and before its result is kept."""

    reads = False

    def __init__(self, stage: Stage, project: Path, file: str) -> None:
        self.stage, self.project, self.file = stage, project, file
        self.facts = stage.facts

    def scan(self, checks: list[Check]) -> Iterator[Record]:
        self.stage.reads = True
        for record in self.stage.scan(checks):
            write(self.project, {self.file: "import os\nos.environ['PKG_CHANGED'] = '1'\n"})
            yield record


Scan = Callable[..., tuple[list[str], dict[str, Record]]]


@pytest.fixture
def scan(project: Path, bare: Stage) -> Scan:
    """Scan the package: what was made anew, and every record by its subject."""

    def run(
        modules: tuple[str, ...] = MODULES, machine: str = "h100", **options: object
    ) -> tuple[list[str], dict[str, Record]]:
        stage = Counting(bare)
        checks = [Check(name, machines.resolve(machine), path=(str(project),), **options) for name in modules]
        records = {record.subject: record for record in open_memory().scan(stage, checks)}
        assert sorted(records) == sorted(modules)
        return sorted(stage.made), records

    return run


def plain(record: Record) -> Record:
    return replace(record, seconds=0.0)


def test_nothing_is_made_anew_where_nothing_changed_and_the_records_are_the_same(scan: Scan) -> None:
    made, first = scan()
    assert made == list(MODULES)
    assert first["pkg.bad"].findings
    made, second = scan()
    assert made == []
    assert {name: plain(record) for name, record in second.items()} == {n: plain(r) for n, r in first.items()}


@pytest.mark.parametrize(
    ("file", "text", "modules"),
    [
        ("pkg/alone.py", "import json \n", ["pkg.alone"]),
        ("pkg/middle.py", "from pkg import base \n", ["pkg.middle", "pkg.top"]),
        ("pkg/base.py", "VALUE = 2\n", ["pkg.base", "pkg.middle", "pkg.top"]),
        ("pkg/rows.json", "[1]", ["pkg.data"]),
        ("pkg/__init__.py", "\n", list(MODULES)),
        # An import that fell through may find it now.
        ("pkg/extra.py", "", list(MODULES)),
        ("not_yet_there.py", "", list(MODULES)),
    ],
)
def test_what_executed_or_read_a_changed_file_is_made_anew(
    scan: Scan, project: Path, file: str, text: str, modules: list[str]
) -> None:
    scan()
    write(project, {file: text})
    assert scan()[0] == modules
    assert scan()[0] == []


#: Ways to read `pkg/rows.json`, or to see whether `pkg/on.cfg` is there.
READS = {
    "io": "import io, pathlib\nio.FileIO(pathlib.Path(__file__).with_name('rows.json')).read()\n",
    "text of another class": "class P(str):\n    pass\n\n\nopen(P(__file__.replace('alone.py', 'rows.json'))).read()\n",
    "behind a link": "import os\nopen(os.path.join(os.path.dirname(__file__), 'link', '..', 'rows.json')).read()\n",
    "sqlite": (
        "import sqlite3\ntry:\n"
        "    sqlite3.connect(__file__.replace('alone.py', 'rows.json')).execute('select 1 from t')\n"
        "except sqlite3.Error:\n    pass\n"
    ),
    "library": (
        "import ctypes\ntry:\n    ctypes.CDLL(__file__.replace('alone.py', 'rows.json'))\nexcept OSError:\n    pass\n"
    ),
    "names": "import os\nany(entry.name.endswith('.cfg') for entry in os.scandir(os.path.dirname(__file__)))\n",
    "glob": "import glob, os\nglob.glob(os.path.dirname(__file__) + '/*.cfg')\n",
}


@pytest.mark.parametrize("way", READS)
def test_every_way_to_read_is_seen(scan: Scan, project: Path, way: str) -> None:
    (project / "elsewhere" / "inner").mkdir(parents=True)
    write(project, {"pkg/alone.py": READS[way], "elsewhere/rows.json": "[]"})
    (project / "pkg" / "link").symlink_to(project / "elsewhere" / "inner")
    assert scan(("pkg.alone",))[0] == ["pkg.alone"]
    assert scan(("pkg.alone",))[0] == []
    changed = {"names": "pkg/on.cfg", "glob": "pkg/on.cfg", "behind a link": "elsewhere/rows.json"}
    write(project, {changed.get(way, "pkg/rows.json"): "[1]"})
    assert scan(("pkg.alone",))[0] == ["pkg.alone"]
    assert scan(("pkg.alone",))[0] == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nat = os.open(os.path.dirname(__file__), 0)\nos.open('rows.json', os.O_RDONLY, dir_fd=at)\n",
        "import os\nos.listdir(os.open(os.path.dirname(__file__), os.O_RDONLY))\n",
    ],
)
def test_what_has_no_name_here_is_not_kept(scan: Scan, project: Path, source: str) -> None:
    write(project, {"pkg/alone.py": source})
    for _ in range(2):
        assert scan(("pkg.alone",))[0] == ["pkg.alone"]


def test_a_module_that_came_while_the_scan_ran_is_found_by_the_next(project: Path, bare: Stage, scan: Scan) -> None:
    write(
        project,
        {"pkg/__pycache__/old.pyc": "", "pkg/maybe.py": "try:\n    import pkg.extra\nexcept ImportError:\n    pass\n"},
    )

    [record] = open_memory().scan(
        Editing(bare, project, "pkg/extra.py"), [Check("pkg.maybe", machines.resolve("h100"), path=(str(project),))]
    )
    assert record.verdict == "ok"
    assert scan(("pkg.maybe",))[1]["pkg.maybe"].verdict == "env-mutation"


def test_names_that_are_no_text_do_no_harm(scan: Scan, project: Path, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("")
    write(project, {"pkg/alone.py": f"open({os.fsencode(tmp_path)!r} + b'/\\xff.txt').read()\n"})
    for _ in range(2):
        assert scan(("pkg.alone",))[0] == ["pkg.alone"]


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE sets SET paths = x'0011'",
        "UPDATE sets SET paths = NULL",
        "UPDATE results SET sets = '[[1,2,3]]'",
        "UPDATE results SET sets = '[[{},1]]'",
        "UPDATE results SET sets = '[]'",
        "DROP TABLE files",
        "DROP TABLE sets",
    ],
)
def test_a_spoilt_store_gives_nothing(scan: Scan, project: Path, tmp_path: Path, spoil: str) -> None:
    scan(("pkg.base",))
    store = Store(tmp_path / "results")
    store._db.execute(spoil)
    if spoil == "DROP TABLE files":
        store._db.execute("CREATE TABLE files (other)")
    if spoil == "DROP TABLE sets":
        store._db.execute("CREATE TABLE sets (other)")
    store._db.close()
    assert scan(("pkg.base",))[0] == ["pkg.base"]


def test_a_file_that_was_touched_and_holds_the_same_changes_nothing(scan: Scan, project: Path) -> None:
    scan()
    os.utime(project / "pkg" / "base.py")
    assert scan()[0] == []


def test_a_file_that_is_gone_is_a_change(scan: Scan, project: Path) -> None:
    scan()
    (project / "pkg" / "base.py").unlink()
    made, records = scan()
    assert "pkg.top" in made
    assert records["pkg.top"].verdict == "import-error"


def test_another_machine_or_another_question_is_made_anew(scan: Scan) -> None:
    scan(("pkg.base",))
    for options in (
        {"machine": "b200"},
        {"env": {"PKG_MODE": "1"}},
        {"absent": ("json",)},
        {"owners": {"rocm": ("pkg.base",)}},
        {"levels": {"device-init": "warn"}},
        {"settle": 0.5},
    ):
        assert scan(("pkg.base",), **options)[0] == ["pkg.base"], options
        assert scan(("pkg.base",), **options)[0] == [], options


def test_the_environment_of_this_process_is_part_of_the_question(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(("pkg.base",))
    monkeypatch.setenv("PKG_MODE", "1")
    assert scan(("pkg.base",))[0] == ["pkg.base"]
    monkeypatch.setenv("COLUMNS", "33")
    assert scan(("pkg.base",))[0] == []


def test_an_environment_with_another_package_is_another_one(scan: Scan, tmp_path: Path, bare: Stage) -> None:
    folder = Path(next(path for path in bare.facts["path"] if path.endswith("site-packages")))
    scan(("pkg.base",))
    distribution = folder / "masquerade_test_of_memory-1.0.dist-info"
    try:
        write(distribution, {"RECORD": ""})
        assert scan(("pkg.base",))[0] == ["pkg.base"]
        assert scan(("pkg.base",))[0] == []
        write(distribution, {"RECORD": "changed in place"})
        assert scan(("pkg.base",))[0] == ["pkg.base"]
    finally:
        (distribution / "RECORD").unlink(missing_ok=True)
        distribution.rmdir()


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos._exit(3)\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "import time\ntime.sleep(30)\n",
        # What the other program read nobody knows.
        "import subprocess\nsubprocess.run(['true'])\n",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n",
    ],
)
def test_what_may_end_otherwise_the_next_time_is_not_kept(scan: Scan, project: Path, source: str) -> None:
    write(project, {"pkg/alone.py": source})
    for _ in range(2):
        assert scan(("pkg.alone",), timeout=2.0, settle=0.1)[0] == ["pkg.alone"]


def test_the_machine_here_and_calls_are_never_remembered(scan: Scan) -> None:
    for _ in range(2):
        assert scan(("pkg.base",), machine="here")[0] == ["pkg.base"]
        assert scan(("json:dumps",), args=(1,))[0] == ["json:dumps"]


def test_what_was_edited_while_the_scan_ran_is_not_kept(project: Path, bare: Stage, scan: Scan) -> None:
    [record] = open_memory().scan(
        Editing(bare, project, "pkg/base.py"), [Check("pkg.base", machines.resolve("h100"), path=(str(project),))]
    )
    assert record.verdict == "ok"
    made, records = scan(("pkg.base",))
    assert made == ["pkg.base"]
    assert records["pkg.base"].verdict == "env-mutation"


def test_a_scan_that_was_broken_off_goes_on_where_it_was(project: Path, bare: Stage, scan: Scan) -> None:
    checks = [Check(name, machines.resolve("h100"), path=(str(project),)) for name in MODULES]
    records = open_memory().scan(bare, checks)
    done = [next(records).subject for _ in range(4)]
    records.close()  # as an interrupt in the loop over it does
    made, found = scan()
    assert sorted(found) == list(MODULES)
    assert not set(done) & set(made)


@pytest.mark.parametrize("least", [1000, 10], ids=["tree", "trace"])
def test_what_many_imports_share_is_read_by_all_of_them(
    least: int, project: Path, bare: Stage, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "WORTH_A_TRACE", least)
    many = {f"pkg/leaf{number:02}.py": "from pkg import base\nimport pkg.alone\n" for number in range(30)}
    write(project, many)
    names = tuple(f"pkg.leaf{number:02}" for number in range(30))
    assert scan(names)[0] == list(names)
    assert scan(names)[0] == []
    write(project, {"pkg/leaf07.py": "from pkg import base\n"})
    assert scan(names)[0] == ["pkg.leaf07"]
    write(project, {"pkg/base.py": "VALUE = 3\n"})
    assert scan(names)[0] == list(names)
    write(project, {"pkg/alone.py": "VALUE = 4\n"})
    assert scan(names)[0] == [name for name in names if name != "pkg.leaf07"]


def test_several_runs_at_a_time_and_a_spoilt_row_do_no_harm(project: Path, tmp_path: Path, scan: Scan) -> None:
    scan()
    store = Store(tmp_path / "results")
    store._db.execute("UPDATE results SET record = x'00' WHERE key IN (SELECT key FROM results LIMIT 3)")
    store._db.execute("DELETE FROM sets WHERE name IN (SELECT name FROM sets LIMIT 1)")
    other = Store(tmp_path / "results")
    made, records = scan()
    assert len(made) >= 3
    assert sorted(records) == list(MODULES)
    other.close({}, ())
    store.close({}, ())
    assert scan()[0] == []


def test_a_folder_that_cannot_be_used_is_told_and_the_scan_goes_on(
    tmp_path: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a file": ""})
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "a file"))
    assert scan(("pkg.base",))[0] == ["pkg.base"]
    assert "MASQUERADE_CACHE=DIR puts them elsewhere" in " ".join(open_memory().told())
    write(tmp_path / "spoilt", {"results-2.sqlite": "no database " * 500})
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "spoilt"))
    assert scan(("pkg.base",))[0] == ["pkg.base"]
    [told] = open_memory().told()
    assert told.startswith(f"{tmp_path / 'spoilt/results-2.sqlite'} holds no results: ")
    assert told.endswith("; delete it, and it is made anew")


def test_off_keeps_nothing(tmp_path: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASQUERADE_CACHE", "off")
    for _ in range(2):
        assert scan(("pkg.base",))[0] == ["pkg.base"]
    assert not (tmp_path / "results").exists()


def test_results_are_their_users_alone(tmp_path: Path, scan: Scan) -> None:
    before = os.umask(0)
    try:
        scan(("pkg.base",))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "results").iterdir()}
    assert (tmp_path / "results").stat().st_mode & 0o777 == 0o700
    assert modes == dict.fromkeys(modes, 0o600) and "results-2.sqlite" in modes


def test_a_file_that_others_could_read_is_so_no_longer(tmp_path: Path, scan: Scan) -> None:
    scan(("pkg.base",))
    (tmp_path / "results" / "results-2.sqlite").chmod(0o644)
    assert scan(("pkg.base",))[0] == []
    assert (tmp_path / "results" / "results-2.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("place", "how"),
    [
        (".", "another's"),
        (".", "writable"),
        ("results-2.sqlite", "another's"),
        ("results-2.sqlite", "writable"),
        ("results-2.sqlite", "link"),
    ],
)
def test_what_another_user_may_have_written_is_not_read(
    tmp_path: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, place: str, how: str
) -> None:
    scan(("pkg.base",))
    at = tmp_path / "results" / place
    if how == "another's":
        if os.geteuid() == 0:
            os.chown(at, 65534, 65534)
        else:  # as if this user were another one
            monkeypatch.setattr(os, "geteuid", lambda: at.stat().st_uid + 1)
    elif how == "writable":
        at.chmod(0o777)
    else:
        at.rename(tmp_path / "elsewhere")
        at.symlink_to(tmp_path / "elsewhere")
    assert scan(("pkg.base",))[0] == ["pkg.base"]
    told = " ".join(open_memory().told())
    assert {"another's": "belongs to another user", "writable": "chmod go-w", "link": "symbolic links"}[how] in told
    assert "MASQUERADE_CACHE=DIR" in told
