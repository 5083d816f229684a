"""Runs a whole command in disguise, with all its children: each Python process puts the machine on as it starts."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from masquerade import machines
from masquerade.fakes import tools
from masquerade.machines import Machine
from masquerade.stage import bootstrap, discovery, log
from masquerade.stage.check import Check, replaced
from masquerade.stage.client import StageError, SubjectError
from masquerade.stage.findings import Context, judge, parse
from masquerade.stage.owners import missing
from masquerade.stage.record import Level, Record, default_levels
from masquerade.stage.supervise import descendants
from masquerade.stage.toolbox import no_room
from masquerade.watch.processes import isolated as isolated_python
from masquerade.watch.processes import program

_SITE = """\
# Written by masquerade run: puts the disguise on each Python process of the command, then runs the user's own.
import os, sys
_folder = {folder!r}
if sys.version_info < (3, 10):
    open(os.path.join(_folder, "logs", "%d.plain" % os.getpid()), "w").write("Python %d.%d" % sys.version_info[:2])
else:
    try:
        import importlib.util as _u
        if "masquerade" not in sys.modules:
            _s = _u.spec_from_file_location("masquerade", {init!r}, submodule_search_locations=[{package!r}])
            _m = _u.module_from_spec(_s)
            sys.modules["masquerade"] = _m
            _s.loader.exec_module(_m)
        from masquerade.stage import run_child as _r
        _r.start(_folder)
    except BaseException as _error:
        sys.stderr.write("masquerade: the disguise failed: %s: %s\\n" % (type(_error).__name__, _error))
        sys.stderr.flush()
        open(os.path.join(_folder, "logs", "%d.failed" % os.getpid()), "w").write(str(_error))
        os._exit(3)
    _r.next_sitecustomize({site!r})
"""


#: Why a program cannot be started that is the caller's to mend; any other reason is the tool's or the host's failure.
_CALLERS = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ENAMETOOLONG, errno.ELOOP, errno.E2BIG}


@dataclass(frozen=True)
class RunResult:
    """How a command ended: its exit status (128 + signal number for a signal) and what was seen."""

    exit_status: int
    record: Record
    processes: int


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


@dataclass(frozen=True)
class _Run:
    machine: Machine
    command: Sequence[str]
    folder: str
    owners: Mapping[str, Sequence[str]]
    levels: Mapping[str, Level] = field(default_factory=default_levels)
    #: Where it was started: the command may remove the folder.
    where: str = field(default_factory=_here)


def _environment(
    run: _Run, document: dict[str, Any], env: Mapping[str, str | None], path: Sequence[str]
) -> dict[str, str]:
    """The command's environment: the machine's variables, then `env`, and its tools and the site folder before all."""
    out = dict(os.environ)
    here = document["platform"] == "here"
    machines_own = {} if here else document.get("host", {}).get("env") or {}
    known = {name: None if value == "unknown" else value for name, value in machines_own.items()}
    for name, value in {**known, **env}.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = value
    if not here:
        out["PATH"] = tools.masked_path(out.get("PATH", os.defpath), os.path.join(run.folder, "tools"), document)
    old = out.get("PYTHONPATH")
    entries = [os.path.join(run.folder, "site"), *(os.path.abspath(p) for p in path), *([old] if old else [])]
    out["PYTHONPATH"] = os.pathsep.join(entries)
    return out


def _prepare(run: _Run, document: dict[str, Any]) -> None:
    site = os.path.join(run.folder, "site")
    for name in ("site", "logs", "tools"):
        os.mkdir(os.path.join(run.folder, name), 0o700)
    tools_folder = os.path.join(run.folder, "tools")
    if document["platform"] != "here":
        tools.build(tools_folder, document, sys.executable)
    config = {
        "machine": document,
        "owners": {owner: list(names) for owner, names in run.owners.items()},
        "tools": tools_folder if document["platform"] != "here" else "",
    }
    with open(os.path.join(run.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    source = _SITE.format(
        folder=run.folder, init=os.path.join(bootstrap.PACKAGE, "__init__.py"), package=bootstrap.PACKAGE, site=site
    )
    with open(os.path.join(site, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(source)


def run_as(
    machine: Machine | str,
    command: Sequence[str],
    *,
    env: Mapping[str, str | None] | None = None,
    path: Sequence[str] = (),
    owners: Mapping[str, Sequence[str]] | None = None,
    levels: Mapping[str, Level] | None = None,
    stand_ins: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> RunResult:
    """Run `command` as if on `machine`; standard input and output are the caller's own.

    Raises SubjectError for a command that is not there or is no program, UnknownMachineError for a machine that is not
    known, StageError when the tool itself fails.
    """
    machine = machines.resolve(machine) if isinstance(machine, str) else machine
    document = replaced(machine, stand_ins or {})
    try:
        folder = tempfile.mkdtemp(prefix="masquerade-run-")
    except OSError as error:
        raise no_room(machine.id, error) from None
    try:
        owners = machines.default_owners() if owners is None else owners
        run = _Run(machine, command, folder, owners, levels or default_levels())
        try:
            _prepare(run, document)
        except OSError as error:
            raise no_room(machine.id, error) from None
        environ = _environment(run, document, env or {}, path)
        started = time.monotonic()
        status, timed_out = _wait(_start(command, environ, machine.id), timeout)
        return _result(run, status, timed_out, time.monotonic() - started, timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(command: Sequence[str], environ: dict[str, str], machine: str) -> subprocess.Popen[bytes]:
    name = command[0]
    found = shutil.which(name, path=environ.get("PATH"))
    told = f"cannot start {shlex.quote(name)}"
    if found is None and os.sep not in name:
        raise SubjectError(f"{told}: not on the PATH of machine {machine}; give its path, or another machine")
    try:
        return subprocess.Popen([found or name, *command[1:]], env=environ)
    except OSError as error:
        kind = SubjectError if error.errno in _CALLERS else StageError
        raise kind(f"{told}: {error.strerror}") from None


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[int, bool]:
    """(exit status, whether the limit was over). Who tells this process to end tells the command."""

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    # Ctrl-C reaches the command by itself: it is in the same process group.
    handlers: dict[int, Any] = {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: forward, signal.SIGHUP: forward}
    # Handlers belong to the main thread; in another one the caller's stay.
    before = {n: signal.signal(n, h) for n, h in handlers.items()} if current_thread() is main_thread() else {}
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return 124, True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return (code if code >= 0 else 128 - code), False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and all below it. Stopped first, so that none starts another meanwhile."""
    ended: set[int] = set()
    while more := {process.pid, *descendants(process.pid)} - ended:
        for pid in more:
            with suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        ended |= more
    for pid in ended:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _result(run: _Run, status: int, timed_out: bool, seconds: float, timeout: float | None) -> RunResult:
    events: list[str] = []
    damaged, full, notes = 0, False, []
    logs = os.path.join(run.folder, "logs")
    for name in sorted(os.listdir(logs)):
        file_path = os.path.join(logs, name)
        if name.endswith((".failed", ".plain")):
            with open(file_path, encoding="utf-8") as text:
                told = text.read()
            if name.endswith(".failed"):
                raise StageError(f"the disguise failed in a process of the command: {told}")
            notes.append(f"a process of {told} ran without a disguise: 3.10 or newer is needed")
            continue
        with open(file_path, "r+b") as file, log.allocate(file.fileno()) as memory:
            contents = log.read(memory)
        events += [event.decode("utf-8", "replace") for event in contents.events]
        damaged, full = damaged + contents.damaged, full or contents.full
    parsed, _ = parse(events)
    processes = sum(event["kind"] == "joined" for event in parsed)
    isolated = sum(bool(event.get("isolated")) for event in parsed) + int(
        program(run.command[0]) == "python" and isolated_python(run.command)
    )
    if isolated:
        number = "1 Python process" if isolated == 1 else f"{isolated} Python processes"
        notes.append(f"{number} started with -I, -E or -S wore no disguise")
    if not processes:
        notes.append("no Python process of the command wore the disguise")
    facts = _facts(parsed)
    notes += _misnamed(run, facts["path"])
    subject = shlex.join(run.command)
    context = Context(
        id=f"run:{subject}@{run.machine.id}",
        subject=subject,
        action="run",
        machine=run.machine.id,
        platform=run.machine.platform,
        timeout=timeout or 0.0,
        facts=facts,
        levels=run.levels,
    )
    closing = None if timed_out else json.dumps({"ok": True, "result": status})
    reply = {
        "events": events,
        "closing": closing,
        "damaged": damaged,
        "full": full,
        "timed_out": timed_out,
        "seconds": seconds,
        "notes": notes,
    }
    return RunResult(status, judge(context, reply), processes)


def _misnamed(run: _Run, path: Sequence[str]) -> Iterator[str]:
    """A sentence for each module that an owner was named for, where its package, as the command found it, lacks it."""
    # A script's own folder, or the one here, comes into sys.path after it was told.
    folders = (*path, *([run.where] if run.where else []))
    named = {name for names in run.owners.values() for name in names}
    asked = Check("", run.machine, owners=run.owners)
    for name, mend in missing(named, [asked], lambda name, _: discovery.names(name, folders)).items():
        yield f"nothing was looked for as {name}: {mend}"


def _facts(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where torch and the standard library lie, as the processes themselves said when they joined.

    They may be of several environments, as those of a launcher are.
    """
    told = [event["facts"] for event in events if event["kind"] == "joined" and isinstance(event.get("facts"), dict)]
    listed = ("torch_folders", "stdlib", "path")
    found: dict[str, Any] = {name: list(dict.fromkeys(_texts(facts.get(name) for facts in told))) for name in listed}
    return {**found, "python": next(_texts([[facts.get("python")] for facts in told]), "")}


def _texts(lists: Iterable[Any]) -> Iterator[str]:
    """The texts in lists that a process wrote."""
    for each in lists:
        yield from (text for text in (each if isinstance(each, list) else ()) if isinstance(text, str))
