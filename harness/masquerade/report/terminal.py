"""The report on a terminal: the matrix, then each distinct finding once. Reads as well without colour and in a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.contracts.golden import lines
from masquerade.report import launches, standins
from masquerade.report.findings import brief, detailed, quiet
from masquerade.report.groups import Group, beside_tables, distinct
from masquerade.report.matrix import tables, told_once
from masquerade.report.results import Results
from masquerade.report.rows import matrix_rows
from masquerade.report.text import clean, plural

if TYPE_CHECKING:
    from masquerade.contracts import Broken

_MOST_NOTES = 10


def show(results: Results, console: Console, *, every: bool = False) -> None:
    """Print the report. With `every`, the matrix lists every module, also those without findings."""
    groups = distinct(results)
    told = beside_tables(groups, results)
    errors = [group for group in told if group.level == "error"]
    platforms = [group for group in errors if not group.alike]
    alike = [group for group in errors if group.alike]
    warnings = [group for group in told if group.level == "warn"]

    shared = ""
    if results.records and not results.is_command:
        shared = _matrix(console, results, platforms, every)
    for group in platforms:
        console.print(detailed(group, shared), soft_wrap=True)
        console.print()
    _list(console, Text("Fails alike on all machines: not a platform's doing", style="bold"), map(brief, alike))
    _list(console, Text("Warnings", style="dim bold"), (quiet(group, shared) for group in warnings))
    launched = launches.table(results)
    if launched is not None:
        console.print(launched)
        console.print()
    for table in results.golden:
        rows = [Text(clean(line)) for line in lines(table)]
        _list(console, Text(table.kind, style="bold red"), rows)
    _list(console, Text("Contracts that do not hold as a whole", style="bold"), map(_whole, results.broken))
    _list(console, Text(standins.TITLE, style="bold"), (Text(f"  - {line}") for line in standins.lines(results)))
    _notes(console, results)
    console.print(closing_line(results, groups), soft_wrap=True)


def _matrix(console: Console, results: Results, platforms: list[Group], every: bool) -> str:
    """Print the matrix. Gives what it says of all machines at once."""
    rows = matrix_rows(results, platforms, every=every)
    parts = list(tables(rows, results, console))
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        console.print(part)
        if isinstance(part, Table) or following is None:
            console.print()
    return told_once(rows, results, console)


def _list(console: Console, title: Text, lines: Iterable[Text]) -> None:
    """A title and its lines; nothing without lines."""
    if shown := list(lines):
        console.print(title)
        for line in shown:
            console.print(line, soft_wrap=True)
        console.print()


def _whole(broken: Broken) -> Text:
    first, *more = str(broken).split("\n")
    # Each line begins with a sign of ours: what a CI service takes for a command stays words.
    return Text("\n    - ".join([f"  {clean(first)}", *(clean(line.strip()) for line in more)]), style="bold red")


def _notes(console: Console, results: Results) -> None:
    notes = dict.fromkeys([*results.notes, *(note for record in results.ordered for note in record.notes)])
    for note in list(notes)[:_MOST_NOTES]:
        console.print(Text(f"note: {clean(note)}", style="dim"), soft_wrap=True)
    if len(notes) > _MOST_NOTES:
        console.print(Text(f"note: {plural(len(notes) - _MOST_NOTES, 'more note')} in the JSON report", style="dim"))
    if notes:
        console.print()


def closing_line(results: Results, groups: list[Group]) -> Text:
    """One line that says how the run ended."""
    errors = sum(group.level == "error" for group in groups)
    warnings = sum(group.level == "warn" for group in groups)
    made = plural(len(results.records), "check")
    if len(results.records) < results.planned:
        made = f"{len(results.records)} of {plural(results.planned, 'check')}"
    line = Text("masquerade: " if results.is_command else "")
    if results.interrupted:
        line.append("Interrupted: ", style="bold yellow")
    counts = [plural(errors, "finding"), plural(warnings, "warning")]
    if results.broken:
        counts.append(f"{plural(len(results.broken), 'fault')} of whole contracts")
    line.append(", ".join(counts), style="bold red" if errors or results.broken else "bold green")
    if results.is_command:
        line.append(f" as {clean(results.machines[0].id)} in {results.seconds:.1f} s")
        return line
    where = plural(len(results.machines), "machine")
    line.append(f" in {plural(len(results.subjects), results.noun)} on {where}: {made} in {results.seconds:.1f} s")
    return line
