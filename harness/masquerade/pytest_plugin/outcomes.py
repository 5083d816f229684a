"""From what a test's process told, and how it ended, to the reports that pytest expects of a test."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from masquerade.pytest_plugin import entries
from masquerade.pytest_plugin.verdict import told
from masquerade.stage import Record
from masquerade.testing import explain

When = Literal["setup", "call", "teardown"]


def made(item: pytest.Item, when: When, call: Callable[[], object]) -> Any:
    """A report of this process's own, made by pytest's hooks from what `call` does."""
    info = pytest.CallInfo.from_call(call, when=when, reraise=(KeyboardInterrupt, pytest.exit.Exception))
    return item.ihook.pytest_runtest_makereport(item=item, call=info)


def complete(
    item: pytest.Item, sent: Sequence[Mapping[str, Any]], record: Record, end: Mapping[str, Any]
) -> Iterator[Any]:
    """The reports of a test: its own, and in the place of those that never came what ended it."""
    reports = []
    for entry in sent:
        if isinstance(entry.get("warning"), dict):
            entries.relay_warning(item, entry["warning"])
        if isinstance(entry.get("report"), dict):
            reports.append(entries.report(item, entry["report"]))
    phases = [report.when for report in reports]
    if "teardown" in phases:
        yield from _judged(item, reports, record)
        return
    if any("exit" in entry or "interrupt" in entry for entry in sent):
        yield from reports
        return
    yield from reports
    when: When = "setup" if "setup" not in phases else "call" if "call" not in phases else "teardown"
    trouble = next((str(entry["tool"]) for entry in sent if "tool" in entry), "")
    yield _ended(item, when, trouble or _how(when, record, end), end)
    if when != "teardown":
        yield made(item, "teardown", lambda: None)


def _judged(item: pytest.Item, reports: list[Any], record: Record) -> Iterator[Any]:
    """All reports came. What happened after the test was judged, as in a fixture's end, is an error of the teardown."""
    failed = any(report.failed or hasattr(report, "wasxfail") for report in reports)
    for report in reports:
        if report.when == "teardown" and record.failed and not failed:
            report = made(item, "teardown", lambda: pytest.fail(told(record), pytrace=False))
        yield report


def _how(when: When, record: Record, end: Mapping[str, Any]) -> str:
    """What ended the process, and the line that was last seen."""
    status = int(end.get("exit", 0))
    if end.get("timed_out"):
        limit = next((f.what for f in record.findings if f.kind == "timeout"), "its limit")
        title = f"Timeout: the test was still in its {when} after {limit}"
    elif status < 0:
        title = f"the test's process crashed during {when}: {_signal(-status)}"
    else:
        title = f"the test ended its process during {when}, with status {status}"
    plain = [replace(f, message="") if f.kind in ("exit", "crash", "timeout") else f for f in record.findings]
    return explain(replace(record, findings=tuple(plain), output=""), title)


def _ended(item: pytest.Item, when: When, message: str, end: Mapping[str, Any]) -> Any:
    """The report of the phase in which the process ended, with what was written until then."""
    _expect_failures(item)
    report = made(item, when, lambda: pytest.fail(message, pytrace=False))
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():
        written = zip(("stdout", "stderr"), capture.read_global_capture(), strict=True)
        report.sections += [(f"Captured {name} {when}", text) for name, text in written if text]
    if stack := _above_pytest(str(end.get("output", ""))):
        report.sections.append(("stack of the test's process", stack))
    return report


def _above_pytest(stack: str) -> str:
    """A dumped stack without the frames of pytest that called the test."""
    lines = stack.splitlines()
    calls = [
        place for place, line in enumerate(lines) if re.search(r"_pytest/(python|fixtures|unittest|runner)\.py", line)
    ]
    return "\n".join(lines[: calls[0]] if calls else lines)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _expect_failures(item: pytest.Item) -> None:
    """A test that is expected to fail may do so by ending its process: its mark was read in the child alone."""
    from _pytest import skipping

    evaluate, key = getattr(skipping, "evaluate_xfail_marks", None), getattr(skipping, "xfailed_key", None)
    if evaluate is not None and key is not None:
        item.stash[key] = evaluate(item)
