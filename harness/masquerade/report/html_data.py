"""What the page is made from: the run as JSON, each line, text and finding once, and named by its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from masquerade import __version__
from masquerade.report import standins
from masquerade.report.columns import SHORT
from masquerade.report.groups import Group, distinct
from masquerade.report.results import Results
from masquerade.report.terminal import closing_line
from masquerade.report.text import clean
from masquerade.stage.record import SEVERITY, Finding, Level, Line, Record

if TYPE_CHECKING:
    from masquerade.contracts.golden import Change, Comparison

# A page must open at once; the JSON report has the rest.
_MOST_TEXT = 4000  # characters of one message or output
_MOST_OUTPUT = 8_000_000  # characters of the outputs of all checks
_MOST_STACK = 100  # rows of one stack
_MOST_LINKS = 200  # of one chain


def document(results: Results) -> dict[str, Any]:
    """The run as plain JSON values; all that a subject supplied is clean text."""
    groups = distinct(results)
    tables = _Tables(results)
    errors = sum(group.level == "error" for group in groups)
    warnings = sum(group.level == "warn" for group in groups)
    checks = [tables.check(record) for record in results.ordered]
    return {
        "tool": f"masquerade {__version__}",
        "headline": f"masquerade: {closing_line(results, groups).plain.removeprefix('masquerade: ')}",
        "summary": {
            "findings": errors,
            "warnings": warnings,
            "noun": results.noun,
            "planned": results.planned,
            "interrupted": results.interrupted,
            "seconds": round(results.seconds, 3),
        },
        "host": {key: clean(str(value)) for key, value in results.host.items() if value},
        "machines": [{key: clean(value) for key, value in m.to_json().items()} for m in results.machines],
        "severity": list(SEVERITY),
        "short": SHORT,
        "notes": [clean(note) for note in results.notes],
        "standIns": {"title": standins.TITLE, "lines": standins.lines(results)},
        "broken": ["; ".join(map(clean, str(broken).split("\n"))) for broken in results.broken],
        "tables": [_golden(table) for table in results.golden],
        "groups": [tables.group(group) for group in groups],
        "subjects": list(tables.subjects.rows),
        "checks": checks,
        "findings": tables.findings.rows,
        "lines": tables.lines.rows,
        "texts": tables.texts.rows,
    }


@dataclass
class _Table:
    """Rows that are kept once."""

    rows: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def place(self, key: Any, row: Any = None) -> int:
        if key not in self.places:
            self.places[key] = len(self.rows)
            self.rows.append(key if row is None else row)
        return self.places[key]


class _Tables:
    """The tables of one document. A place of -1 stands for nothing."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.machines = {machine.id: index for index, machine in enumerate(results.machines)}
        self.subjects, self.findings, self.lines, self.texts = _Table(), _Table(), _Table(), _Table()
        self.room = _MOST_OUTPUT

    def line(self, line: Line | None) -> int:
        if line is None:
            return -1
        row = (clean(line.file), line.line, clean(line.code.strip()), clean(line.module))
        return self.lines.place(row)

    def text(self, text: str) -> int:
        """A text of several lines, its end where it is too long."""
        if not text.strip():
            return -1
        kept = text if len(text) <= _MOST_TEXT else f"...{text[-_MOST_TEXT:]}"
        return self.texts.place("\n".join(map(clean, kept.rstrip().split("\n"))))

    def finding(self, finding: Finding, level: Level) -> int:
        key = (finding, level)
        if key in self.findings.places:
            return self.findings.places[key]
        return self.findings.place(
            key,
            {
                "kind": finding.kind,
                "what": clean(finding.what[:_MOST_TEXT]),
                "phase": finding.phase,
                "level": level,
                "blame": self.line(finding.blame),
                "chain": [self.line(link) for link in finding.chain[:_MOST_LINKS]],
                "stack": [self.text(row) for row in finding.stack[-_MOST_STACK:]],
                "message": self.text(finding.message),
            },
        )

    def check(self, record: Record) -> dict[str, Any]:
        """One check; what is empty is left out."""
        output = -1
        if self.room > 0:
            output = self.text(record.output)
            self.room -= min(len(record.output), _MOST_TEXT)
        row = {
            "subject": self.subjects.place(clean(record.subject)),
            "machine": self.machines.get(record.machine, -1),
            "action": record.action,
            "verdict": record.verdict,
            "failed": record.failed,
            "seconds": round(record.seconds, 3),
            "touch": record.touch,
            "findings": [self.finding(f, self.results.level(f, record)) for f in self.results.shown(record)],
            "output": output,
            "notes": [self.text(note) for note in record.notes],
        }
        if record.contract:
            row["contract"] = clean(record.contract)
        if record.result is not None:
            row["result"] = self.text(repr(record.result))
        return row

    def group(self, group: Group) -> dict[str, Any]:
        return {
            "finding": self.finding(group.finding, group.level),
            "level": group.level,
            "alike": group.alike,
            "places": [self._place(places) for places in group.places],
            "messages": [self.text(message) for message in _first(group.messages)],
            "then": [self.group(follows) for follows in group.consequences],
        }

    def _place(self, place: tuple[str, str]) -> list[int]:
        subject, machine = place
        return [self.subjects.place(clean(subject)), self.machines.get(machine, -1)]


def _golden(table: Comparison) -> dict[str, Any]:
    """A table; a cell is one text, or where the answer is another, both of them and the reasons."""
    rows = [
        {"machine": clean(row.machine), "source": clean(row.source), "cells": [_answer(cell) for cell in row.cells]}
        for row in table.rows
    ]
    columns = [clean(name) for name in table.columns]
    return {"name": clean(table.name), "file": clean(table.file), "columns": columns, "rows": rows}


def _answer(cell: str | Change) -> str | dict[str, Any]:
    if isinstance(cell, str):
        return clean(cell)
    return {"want": clean(cell.old), "got": clean(cell.new), "why": [clean(why) for why in cell.why]}


def _first(messages: Iterable[str]) -> list[str]:
    return [message for message in messages if message.strip()][:3]
