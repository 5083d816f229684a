"""Runs a test marked `machine` in a forked child in disguise, and reports it as if it had run here."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

import pytest

from masquerade.pytest_plugin import child, entries, preloaded
from masquerade.pytest_plugin.machine_mark import REFUSED, TIMEOUT, Plan, plan
from masquerade.pytest_plugin.outcomes import complete, made
from masquerade.pytest_plugin.verdict import Verdict
from masquerade.stage import Check, Record, StageError, SubjectError, disguise, log, supervise
from masquerade.stage.places import where_things_lie
from masquerade.testing import shared_stage

#: The limit that pytest-timeout has for a test.
LIMIT: pytest.StashKey[float] = pytest.StashKey()


def run(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The protocol of one test. Raises what the test itself wants the run to end with."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item):
        hook.pytest_runtest_logreport(report=report)
    # Fixtures that earlier tests left set up in this process, and that the next test does not share, end now.
    state = getattr(item.session, "_setupstate", None)
    if state is not None:
        report = made(item, "teardown", lambda: state.teardown_exact(nextitem))
        if report.failed:
            hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _reports(item: pytest.Item) -> Iterator[Any]:
    refused = item.config.stash.get(REFUSED, "")
    if refused:
        yield from _broken(item, refused)
        return
    chosen = plan(item)
    loaded = preloaded.complaint(item, chosen)
    if loaded:
        yield from _broken(item, loaded)
        return
    attached = bool(item.config.getoption("usepdb") or item.config.getoption("trace"))
    limit = chosen.timeout or item.stash.get(LIMIT, TIMEOUT)
    try:
        request = shared_stage().request(_check(chosen))
    except (StageError, SubjectError, ValueError) as error:
        yield from _broken(item, f"@pytest.mark.machine: {error}")
        return
    verdict = Verdict(item.nodeid, chosen.machine.id, chosen.machine.platform, limit, where_things_lie())
    with tempfile.TemporaryFile() as file:
        record, end = _run_child(item, request, verdict, file, attached)
        told = list(entries.read(file))
    yield from complete(item, told, record, end)
    _obey(item.session, told)


def _broken(item: pytest.Item, message: str) -> Iterator[Any]:
    yield made(item, "setup", lambda: pytest.fail(message, pytrace=False))
    yield made(item, "teardown", lambda: None)


def _check(chosen: Plan) -> Check:
    return Check(
        "pytest",
        chosen.machine,
        owners=chosen.owners,
        env=chosen.env,
        present=chosen.present,
        absent=chosen.absent,
    )


def _run_child(
    item: pytest.Item, request: dict[str, Any], verdict: Verdict, file: IO[bytes], attached: bool
) -> tuple[Record, Mapping[str, Any]]:
    """Fork the test's process and watch over it; gives what was seen and how it ended."""
    disguise.load()
    factory = getattr(item.config, "_tmp_path_factory", None)
    if factory is not None:
        factory.getbasetemp()  # made here, or each child would make one of its own
    memory = log.allocate()
    words, end_of_words = os.pipe()
    ours, theirs = socket.socketpair()  # watch_over ends with its tool: here both are this process
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    # The thread of pytest's faulthandler_timeout is lost in a fork, and a child that fails would wait for it for ever.
    faulthandler.cancel_dump_traceback_later()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            assignment = child.Assignment(request, verdict, memory, end_of_words, attached)
            child.run(item, assignment, entries.Writer(file), parent)
        os.close(end_of_words)
        end_of_words = -1
        with _terminal_is_the_childs(attached):
            end = _watch_over(pid, memory, words, ours, 1e6 if attached else verdict.timeout)
        return verdict.record(memory, end), end
    finally:
        for descriptor in (words, end_of_words):
            if descriptor >= 0:
                os.close(descriptor)
        ours.close()
        theirs.close()
        memory.close()


def _watch_over(pid: int, memory: Any, words: int, control: socket.socket, limit: float) -> dict[str, Any]:
    try:
        return supervise.watch_over(pid, memory, words, control, limit)
    except BaseException:  # Ctrl-C: the child goes first
        for end in (os.killpg, os.kill):
            with suppress(OSError):
                end(pid, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(pid, 0)
        raise


@contextmanager
def _terminal_is_the_childs(attached: bool) -> Iterator[None]:
    """Ctrl-C is for the debugger while a child has the terminal."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if attached else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _obey(session: pytest.Session, told: list[dict[str, Any]]) -> None:
    """Stop where the test wanted that."""
    for entry in told:
        for name in ("shouldstop", "shouldfail"):
            if name in (entry.get("stop") or ()):
                setattr(session, name, entry["stop"][name])
        if isinstance(wish := entry.get("exit"), dict):
            status = wish.get("status")
            pytest.exit(str(wish.get("reason")), status if isinstance(status, int) else None)
        if entry.get("interrupt"):
            raise KeyboardInterrupt
