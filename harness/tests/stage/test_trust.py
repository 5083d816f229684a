"""What the threat model promises: nothing listens, nothing but the subject is executed, answers are data."""

from __future__ import annotations

import ast
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import told
from click.testing import CliRunner
from processes import below

from conftest import write
from masquerade import machines
from masquerade.cli import main
from masquerade.cli.services import kept
from masquerade.stage import Check, Stage
from masquerade.stage.fast import WORTH
from masquerade.stage.run_as import run_as

PACKAGE = Path(machines.__file__).parents[1]
BARE = getattr(sys, "_base_executable", sys.executable)

#: A row of /proc/net/unix with this flag accepts connections.
ACCEPTS = 0x10000


def inodes(pid: int) -> set[str]:
    """The sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def reachable(pid: int) -> list[str]:
    """The sockets of a process that others can reach: any of the network, and those of the host that have a name."""
    own, found = inodes(pid), []
    net = Path(f"/proc/{pid}/net")
    for family in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "udplite", "packet"):
        if (net / family).exists():
            rows = [row.split() for row in (net / family).read_text().splitlines()[1:]]
            column = 8 if family == "packet" else 9
            found += [f"{family} {row[1]}" for row in rows if row[column] in own]
    for row in (line.split() for line in (net / "unix").read_text().splitlines()[1:]):
        if row[6] in own and (int(row[3], 16) & ACCEPTS or len(row) > 7):
            found.append(f"unix {row[7:]}")
    return found


#: Says that it runs and waits until it may go on. `tcp` and `unix` listen, as a subject of its own may.
WAITS = """\
import os, socket, time
listening = socket.socket(socket.AF_UNIX if os.environ["LISTEN"] == "unix" else socket.AF_INET)
if os.environ["LISTEN"] != "no":
    listening.bind("\\0masquerade-test-%d" % os.getpid() if os.environ["LISTEN"] == "unix" else ("127.0.0.1", 0))
    listening.listen()
else:
    listening.close()
open(os.environ["SAY"], "w").close()
while not os.path.exists(os.environ["GO"]): time.sleep(0.02)
"""


@pytest.fixture(params=["fork", "fresh", "tree"])
def look(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[object]:
    """Runs a check, and gives what can be reached in every process of the run while it is in its middle."""
    say, go = tmp_path / "say", tmp_path / "go"
    count = WORTH if request.param == "tree" else 2
    modules = {"pkg/__init__.py": "", "pkg/waits.py": WAITS, **{f"pkg/m{n:02}.py": "" for n in range(count)}}
    write(tmp_path, modules)
    names = [*(f"pkg.m{n:02}" for n in range(count)), "pkg.waits"]

    def look(listen: str) -> tuple[int, list[str]]:
        env = {"SAY": str(say), "GO": str(go), "LISTEN": listen}
        checks = [Check(name, machines.resolve("h100"), path=(str(tmp_path),), env=env) for name in names]
        with Stage(BARE, isolation="fresh" if request.param == "fresh" else "fork") as stage:
            records = []
            thread = threading.Thread(target=lambda: records.extend(stage.scan(checks)))
            thread.start()
            try:
                while thread.is_alive() and not say.exists():
                    thread.join(0.02)
                processes = [pid for server in stage.processes for pid in (server, *below(server))]
                found = [f"{row} of {pid}" for pid in processes for row in reachable(pid)]
                own = inodes(os.getpid())
                assert len(own) >= len(stage.processes)
            finally:
                go.touch()
                thread.join(60)
        assert [told(record) for record in records if record.verdict != "ok"] == []
        assert len(records) == len(checks)
        return len(processes), found

    return look


def test_no_process_of_a_run_can_be_reached_from_outside(look) -> None:
    processes, found = look("no")
    assert processes >= 2
    assert found == []


@pytest.mark.parametrize("listen", ["tcp", "unix"])
def test_a_subject_that_listens_would_be_seen(look, listen: str) -> None:
    _, found = look(listen)
    assert len(found) == 1 and found[0].startswith(listen)


@pytest.mark.parametrize("isolation", ["fork", "fresh"])
def test_nothing_is_executed_from_where_it_was_started(tmp_path: Path, monkeypatch, isolation: str) -> None:
    says = f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__ + ' ')\n"
    names = ("json", "socket", "torch", "select", "masquerade", "sitecustomize", "usercustomize", "subject")
    write(tmp_path / "here", {f"{name}.py": says for name in names})
    write(tmp_path / "here", {"x.pth": f"import sys; {says}", "conftest.py": says, "setup.py": says})
    write(tmp_path / "elsewhere", {"subject.py": "import json, socket, select\n"})
    monkeypatch.chdir(tmp_path / "here")
    with Stage(BARE, isolation=isolation) as stage:
        for machine in ("h100", "here"):
            record = stage.run("subject", on=machine, path=[tmp_path / "elsewhere"])
            assert record.verdict == "ok", told(record)
        assert not (tmp_path / "executed").exists()
        # The same folder as the subject's own is executed, or this test could not fail.
        stage.run("subject", on="here", path=[tmp_path / "here"])
    assert (tmp_path / "executed").read_text().split() == ["subject"]


def test_a_search_for_modules_executes_none(tmp_path: Path) -> None:
    says = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    write(tmp_path, {"pkg/__init__.py": says, "pkg/a.py": says, "pkg/sub/__init__.py": says, "pkg/sub/b.py": says})
    with Stage(BARE) as stage:
        assert stage.discover("pkg", [str(tmp_path)]).modules == ("pkg", "pkg.a", "pkg.sub", "pkg.sub.b")
    assert not (tmp_path / "executed").exists()


#: Where text that a subject or a file supplies could become code. The child's own process is the subject's anyway.
LOADERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
FOLDERS = ("cli", "contracts", "report", "remembered", "machines", "ci")
FILES = ("client", "fast", "findings", "folders", "record", "wire", "check")
TOOL_SIDE = [file for name in FOLDERS for file in (PACKAGE / name).rglob("*.py")]
TOOL_SIDE += [PACKAGE / "stage" / f"{name}.py" for name in FILES]


def suspicious(tree: ast.AST) -> list[str]:
    """What would execute text, or start a shell."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in LOADERS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LOADERS:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            attribute = ast.unparse(node.func) if isinstance(node.func, ast.Attribute) else ""
            shell = any(word.arg == "shell" for word in node.keywords)
            if name in CALLS or attribute in {"os.system", "os.popen", "importlib.import_module"} or shell:
                found.append(f"{name or attribute} in line {node.lineno}")
    return found


def test_the_tools_side_never_executes_what_it_is_given() -> None:
    assert len(TOOL_SIDE) > 60
    found = {str(file.relative_to(PACKAGE)): suspicious(ast.parse(file.read_text())) for file in TOOL_SIDE}
    assert {name: rows for name, rows in found.items() if rows} == {}


def test_what_would_execute_is_recognized() -> None:
    text = "import pickle\nfrom yaml import load\neval(a)\nos.system(a)\nrun(a, shell=True)\nre.compile(a)\n"
    assert len(suspicious(ast.parse(text))) == 5


def test_a_commands_folder_is_its_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = f"import os; open('m', 'w').write(repr([oct(e.stat().st_mode) for e in os.scandir({str(tmp_path)!r})]))"
    monkeypatch.chdir(write(tmp_path / "work", {"x": ""}))
    (tmp_path / "work").chmod(0o755)
    before = os.umask(0)
    try:
        assert run_as("h100", [sys.executable, "-c", source]).exit_status == 0
    finally:
        os.umask(before)
    assert sorted(ast.literal_eval((tmp_path / "work" / "m").read_text())) == ["0o40700", "0o40755"]


def test_a_kept_report_is_its_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        said = kept("json", "{}")
    finally:
        os.umask(before)
    (file,) = tmp_path.iterdir()
    assert str(file) in said and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("service", ["github", "buildkite"])
def test_pipelines_keep_no_results_between_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    write(tmp_path, {"masquerade.toml": '[[contracts]]\nname = "lazy"\nkind = "imports"\nmodules = ["pkg"]\n'})
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["ci", service])
    assert done.exit_code == 0 and "masquerade check" in done.stdout
    assert "cache" not in done.stdout.lower()


#: What a step of the clock moves.
WALL = {"time.time", "time.time_ns", "datetime.datetime", "datetime.date", "time.localtime", "time.gmtime"}


def test_limits_of_time_are_kept_by_a_clock_that_nobody_sets() -> None:
    """A step of the host's clock ends no check early and lets none run on: only ages of kept results are of the day."""
    asked = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in WALL)
        or (isinstance(node, ast.ImportFrom) and node.module == "datetime")
        or (isinstance(node, ast.ImportFrom) and node.module == "time")
    }
    assert asked == {"remembered/memory.py", "remembered/store.py"}
