"""Reads JSON reports back, so that the parts of a run, one a job, become one report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from masquerade.contracts import Broken
from masquerade.report.json_report import SCHEMA
from masquerade.report.results import MachineColumn, Results
from masquerade.stage.record import SEVERITY, Finding, Level, Line, Probe, Record, default_levels


class ReportError(ValueError):
    """A file that is no JSON report of masquerade."""


def read(text: str, name: str) -> Results:
    """The results that a JSON report holds. Golden tables are not in it. `name` is what errors call it.

    Raises: ReportError naming what is wrong, and where.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{name} is not JSON: {error}") from None
    if not isinstance(document, dict) or not str(document.get("tool", "")).startswith("masquerade "):
        raise ReportError(f"{name} is no report of masquerade; --report json:FILE writes one")
    if document.get("schema") != SCHEMA:
        raise ReportError(f"{name} has schema {document.get('schema')!r}, and this masquerade reads {SCHEMA}")
    try:
        return _results(document)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ReportError(f"{name} is not as its schema says: {why}") from None


def merge(parts: Iterable[Results]) -> Results:
    """One report of several. Of a check that several parts made, all records stay; seconds are added up."""
    first, *more = parts
    machines = {machine.id: machine for part in (first, *more) for machine in part.machines}
    notes = [note for part in (first, *more) for note in part.notes]
    if any(part.host != first.host for part in more):
        notes.append("The parts of this report were made on several hosts; the first one is named.")
    return replace(
        first,
        machines=tuple(machines.values()),
        records=tuple(record for part in (first, *more) for record in part.records),
        planned=sum(part.planned for part in (first, *more)),
        broken=tuple(dict.fromkeys(broken for part in (first, *more) for broken in part.broken)),
        control=next((part.control for part in (first, *more) if part.control), None),
        notes=tuple(dict.fromkeys(notes)),
        interrupted=any(part.interrupted for part in (first, *more)),
        seconds=sum(part.seconds for part in (first, *more)),
    )


def _results(document: dict[str, Any]) -> Results:
    levels: dict[str, Level] = {**default_levels(), **document["levels"]}
    return Results(
        machines=tuple(MachineColumn(m["id"], m["platform"], m["arch"]) for m in document["machines"]),
        records=tuple(record_of(check, levels) for check in document["checks"]),
        planned=int(document["summary"]["planned"]),
        broken=tuple(Broken(**broken) for broken in document.get("broken", ())),
        host=dict(document["host"]),
        levels=levels,
        control=record_of(document["control"], levels) if document["control"] else None,
        notes=tuple(document["notes"]),
        interrupted=bool(document["interrupted"]),
        seconds=float(document["summary"]["seconds"]),
    )


def record_of(check: dict[str, Any], levels: dict[str, Level]) -> Record:
    """A record, of its JSON. Raises KeyError, TypeError, ValueError or AttributeError for what is none."""
    record = Record(
        id=check["id"],
        subject=check["subject"],
        action=check["action"],
        machine=check["machine"],
        platform=check["platform"],
        findings=tuple(_finding(finding) for finding in check["findings"]),
        seconds=float(check["seconds"]),
        result=check["result"],
        touch=check["touch"],
        launches=tuple(_launch(launch) for launch in check["launches"]),
        output=check["output"],
        notes=tuple(check["notes"]),
        levels={**levels, **check.get("levels", {})},
        probes={name: Probe(row["count"], _lines(row["callers"])) for name, row in check.get("probes", {}).items()},
        allowed=tuple(_finding(finding) for finding in check.get("allowed", ())),
        stand_ins=tuple(check.get("stand_ins", ())),
    )
    if record.verdict != check["verdict"]:
        raise ValueError(f"{record.id} says {check['verdict']!r}, and its findings make it {record.verdict!r}")
    return record


def _launch(launch: dict[str, Any]) -> dict[str, Any]:
    for line in (launch["line"], launch["place"]):
        if line is not None:
            _line(line)
    return {**launch, "kernel": str(launch["kernel"])}


def _finding(finding: dict[str, Any]) -> Finding:
    if finding["kind"] not in SEVERITY:
        raise ValueError(f"there is no kind of finding {finding['kind']!r}")
    return Finding(
        kind=finding["kind"],
        what=finding["what"],
        phase=finding["phase"],
        blame=_line(finding["blame"]) if finding["blame"] else None,
        chain=_lines(finding["chain"]),
        stack=tuple(finding["stack"]),
        message=finding["message"],
        missing=finding.get("missing", ""),
    )


def _lines(rows: Iterable[dict[str, Any]]) -> tuple[Line, ...]:
    return tuple(_line(row) for row in rows)


def _line(row: dict[str, Any]) -> Line:
    return Line(row["file"], row["line"], row.get("code", ""), row.get("module", ""))
