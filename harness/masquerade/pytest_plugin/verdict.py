"""Judges what a test in disguise did, from the log of its process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Any

from masquerade.stage import Record, log
from masquerade.stage.findings import Context, judge
from masquerade.testing import explain, warning

#: pytest's own modules that call a test, a fixture or a hook: what lies outside of them is nobody's fault.
_CALLERS = ("_pytest.python", "_pytest.fixtures", "_pytest.unittest", "_pytest.runner")


@dataclass(frozen=True)
class Verdict:
    """What is judged: one test on one machine. `facts` say where torch and the standard library lie."""

    nodeid: str
    machine: str
    platform: str
    timeout: float
    facts: Mapping[str, Any]

    def record(self, memory: mmap, end: Mapping[str, Any] | None = None) -> Record:
        """The record so far, or at the `end` of the process, as supervise.watch_over tells it."""
        contents = log.read(memory)
        context = Context(
            id=self.nodeid,
            subject=self.nodeid,
            action="run",
            machine=self.machine,
            platform=self.platform,
            timeout=self.timeout,
            path=tuple(self.facts.get("path", ())),
            facts=self.facts,
        )
        closing = contents.closing.decode("utf-8", "replace") if contents.closing is not None else None
        reply = {
            **(end or {}),
            "events": [_own_frames(event) for event in contents.events],
            "closing": '{"ok": true}' if end is None else closing,
            "damaged": contents.damaged,
            "full": contents.full,
        }
        return judge(context, reply)


def told(record: Record) -> str:
    """A record of a test, as the text of a failure; its name stands above that already."""
    worst = record.worst
    return explain(record, f"on {record.machine}: {warning(worst) if worst else record.verdict}")


def _own_frames(event: bytes) -> str:
    """An event whose stacks begin where pytest called the test or the fixture."""
    text = event.decode("utf-8", "replace")
    try:
        found = json.loads(text)
        for key in ("stack", "origin"):
            if isinstance(found.get(key), list):
                found[key] = _below_pytest(found[key])
    except (ValueError, AttributeError, RecursionError):
        return text  # the judge counts it as spoilt
    return json.dumps(found)


def _below_pytest(rows: list[Any]) -> list[Any]:
    callers = [
        place for place, row in enumerate(rows) if isinstance(row, list) and len(row) == 4 and row[3] in _CALLERS
    ]
    return rows[callers[-1] + 1 :] if callers else rows
