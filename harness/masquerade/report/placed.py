"""Results whose lines are those of files in the repository, for services that link to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from masquerade.report.results import Results
from masquerade.stage.record import Finding, Line, Record

Locate = Callable[[str], "str | None"]
"""A file as a report names it -> its path in the repository, with slashes; None where it is not in there."""


def placed(results: Results, locate: Locate) -> Results:
    """The results with the blamed lines and the chains of findings, and the lines of contracts, by the paths of files
    in the repository; what lies elsewhere keeps its name.
    """
    known: dict[str, str] = {}

    def path(file: str) -> str:
        if file not in known:
            known[file] = locate(file) or file
        return known[file]

    def line(old: Line) -> Line:
        return replace(old, file=path(old.file))

    def finding(old: Finding) -> Finding:
        return replace(old, blame=line(old.blame) if old.blame else None, chain=tuple(map(line, old.chain)))

    def record(old: Record) -> Record:
        return replace(old, findings=tuple(map(finding, old.findings))) if old.findings else old

    broken = tuple(replace(each, file=path(each.file)) for each in results.broken)
    return replace(results, records=tuple(map(record, results.records)), broken=broken)
