"""A test's own process: puts the machine on, then lets pytest run the test as it always does."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from mmap import mmap
from typing import Any, NamedTuple, NoReturn

import pytest
from _pytest import runner

from masquerade.machines.owners import told_missing
from masquerade.pytest_plugin.entries import Writer
from masquerade.pytest_plugin.verdict import Verdict, told
from masquerade.stage import calling, log, supervise
from masquerade.stage.client import clean_environment
from masquerade.stage.disguise import disguise, watch
from masquerade.watch.recorder import recorder

#: Taken before a watcher wraps it.
_leave = os._exit


class Assignment(NamedTuple):
    """What the child is to do: the request is the one that a stage would send, `words` takes a crash's stack."""

    request: dict[str, Any]
    verdict: Verdict
    memory: mmap
    words: int
    attached: bool


def run(item: pytest.Item, assignment: Assignment, tell: Writer, parent: int) -> NoReturn:
    """Run the test in disguise, tell its reports and end the process."""
    status = 70
    try:
        _settle(assignment, parent)
        _forget_parents_fixtures(item.session)
        _Telling.install(item, assignment, tell)
        append, close = log.writer(assignment.memory)
        request = assignment.request
        _clean_environment()
        calling.change_environment(request["env"])
        try:
            disguise(request["machine"], folder=request["tools"])
            watch(recorder(append, {"now": "call"}), request["machine"], request["owners"])
        except Exception as error:
            tell(tool=f"the disguise itself failed: {type(error).__name__}: {error}")
            raise
        with _stopping(item.session, tell), _passing_on_warnings(item, tell):
            runner.runtestprotocol(item, log=False)
        close(b'{"ok": true}')
        status = 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        _leave(status)


def _settle(assignment: Assignment, parent: int) -> None:
    """A session of its own, unless a debugger needs the terminal; last words for a crash; signals as in any process."""
    if not assignment.attached:
        os.setsid()
        sys.breakpointhook = _no_terminal
    supervise.die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=assignment.words, all_threads=False)
    faulthandler.register(supervise.STACK_SIGNAL, file=assignment.words, all_threads=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def _no_terminal(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError(
        "a test in disguise runs in a process without a terminal; run pytest with --pdb or --trace to debug it"
    )


def _forget_parents_fixtures(session: pytest.Session) -> None:
    """Fixtures that the pytest process has set up are its own to tear down: forget their finalizers here."""
    for finalizers, _ in getattr(getattr(session, "_setupstate", None), "stack", {}).values():
        finalizers.clear()
    manager = getattr(session, "_fixturemanager", None)
    for definitions in getattr(manager, "_arg2fixturedefs", {}).values():
        for definition in definitions:
            if definition.cached_result is not None:
                getattr(definition, "_finalizers", []).clear()


def _clean_environment() -> None:
    """Take away the variables by which packages know that they are being tested, for good."""
    for name in set(os.environ) - set(clean_environment(os.environ)):
        del os.environ[name]
    if hasattr(runner, "_update_current_test_var"):  # pytest would set PYTEST_CURRENT_TEST anew for each phase
        runner._update_current_test_var = lambda item, when: None


@contextmanager
def _passing_on_warnings(item: pytest.Item, tell: Writer) -> Iterator[None]:
    """pytest catches a test's warnings around its protocol, which is in the pytest process: do it here as well."""
    if not item.config.pluginmanager.hasplugin("warnings"):
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        finally:
            for warning in caught or ():
                tell.warning(warning, "runtest", None)


class _stopping:
    """Tells the pytest process when the test wants the whole run to stop."""

    def __init__(self, session: pytest.Session, tell: Writer) -> None:
        self.session, self.tell = session, tell

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        for name in ("shouldstop", "shouldfail"):
            if wish := getattr(self.session, name):
                self.tell(stop={name: wish})
        if isinstance(error, pytest.exit.Exception):
            self.tell(exit={"reason": str(error.msg), "status": error.returncode})
        elif isinstance(error, KeyboardInterrupt):
            self.tell(interrupt=True)
        return isinstance(error, (pytest.exit.Exception, KeyboardInterrupt))


class _Telling:
    """Hooks of the child: each report and warning goes to the pytest process, and the judge has a word in the call."""

    def __init__(self, config: pytest.Config, assignment: Assignment, tell: Writer) -> None:
        self.config, self.assignment, self.tell = config, assignment, tell
        self.installed = False

    @classmethod
    def install(cls, item: pytest.Item, assignment: Assignment, tell: Writer) -> None:
        """Take the place of all that would print or send reports: that is for the pytest process."""
        manager = item.config.pluginmanager
        for name in ("pytest_runtest_logreport", "pytest_warning_recorded"):
            hook = getattr(manager.hook, name)
            for implementation in hook.get_hookimpls():
                hook._remove_plugin(implementation.plugin)
        telling = cls(item.config, assignment, tell)
        manager.register(telling, "masquerade-child")
        telling.installed = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        if says := self._missing(call):
            item.add_report_section(call.when, "masquerade", says)
        report = yield
        self.tell.report(self.config, report)
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        # Subtests log their reports themselves, as they end.
        self.tell.report(self.config, report)

    def pytest_warning_recorded(self, warning_message: Any, when: str, location: Any) -> None:
        if self.installed:  # pluggy repeats to a new plugin the warnings of earlier tests
            self.tell.warning(warning_message, when, location)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        try:
            result = yield
        except BaseException:
            record = self._record()
            if record.findings:
                item.add_report_section("call", "masquerade", told(record))
            raise
        record = self._record()
        if record.failed:
            pytest.fail(told(record), pytrace=False)
        if record.findings:
            item.add_report_section("call", "masquerade", told(record))
        return result

    def _missing(self, call: pytest.CallInfo[Any]) -> str:
        """What to know of a module that a platform owns, where a test failed for want of it."""
        error = call.excinfo.value if call.excinfo else None
        module = error.name if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str) else ""
        return told_missing(module, self.assignment.request["owners"], 'present=["{}"]')

    def _record(self) -> Any:
        return self.assignment.verdict.record(self.assignment.memory)
