"""Buildkite's Test Engine: a result for each check, tagged with its machine, platform and arch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from masquerade.report.results import Results
from masquerade.report.text import clean, clip, first_line
from masquerade.stage.record import Finding, Record

if TYPE_CHECKING:
    from masquerade.contracts import Broken

#: Results that one upload may hold.
MOST_RESULTS = 5000

#: Bytes of a tag's value: it must be less than 128.
_TAG = 127


def parts(results: Results) -> Iterator[str]:
    """The run as JSON documents of at most 5000 results, to be uploaded under one run key.

    Source: Buildkite's references of the JSON import and of tags.
    """
    archs = {machine.id: machine.arch for machine in results.machines}
    rows = [_result(record, archs.get(record.machine, ""), results) for record in results.ordered]
    rows += map(_whole, results.broken)
    for start in range(0, max(len(rows), 1), MOST_RESULTS):
        yield json.dumps(rows[start : start + MOST_RESULTS], indent=1, allow_nan=False) + "\n"


def render(results: Results) -> str:
    """The first of the documents."""
    return next(parts(results))


def _result(record: Record, arch: str, results: Results) -> dict[str, Any]:
    tags = {"machine": record.machine, "platform": record.platform, "arch": arch}
    out: dict[str, Any] = {
        "scope": clean(f"masquerade.{record.machine}"),
        "name": clean(f"{record.action} {record.subject}"),
        "result": "failed" if record.failed else "passed",
        "history": {"start_at": 0.0, "end_at": record.seconds, "duration": record.seconds},
        "tags": {name: _tag(value) for name, value in tags.items() if value.strip()},
    }
    worst = record.worst
    if worst and worst.blame:
        out |= {"location": clean(str(worst.blame)), "file_name": clean(worst.blame.file)}
    if record.failed and worst:
        out["failure_reason"] = _headline(worst)
        out["failure_expanded"] = [_expanded(f) for f in results.shown(record) if results.level(f, record) == "error"]
    return out


def _whole(broken: Broken) -> dict[str, Any]:
    """What a contract shows as a whole has no machine."""
    said = clip(clean(broken.message))
    return {
        "scope": "masquerade.contracts",
        "name": clean(broken.contract),
        "location": clean(f"{broken.file}:{broken.line}" if broken.line else broken.file),
        "file_name": clean(broken.file),
        "result": "failed",
        "failure_reason": said,
        "failure_expanded": [{"expanded": [said], "backtrace": []}],
        "history": {"start_at": 0.0, "end_at": 0.0, "duration": 0.0},
    }


def _tag(value: str) -> str:
    return clean(value).encode()[:_TAG].decode(errors="ignore")


def _headline(finding: Finding) -> str:
    return clip(clean(f"{finding.kind} {finding.what}{f' at {finding.blame}' if finding.blame else ''}"))


def _expanded(finding: Finding) -> dict[str, list[str]]:
    said = [first_line(finding.message)] if finding.message else []
    source = [clip(clean(finding.blame.code))] if finding.blame and finding.blame.code else []
    return {"expanded": [_headline(finding), *said, *source], "backtrace": [clip(clean(row)) for row in finding.stack]}
