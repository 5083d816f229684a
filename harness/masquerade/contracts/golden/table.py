"""A golden table: a row for each machine with its libraries, a column for each problem, and a source for each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from masquerade.contracts.golden.cells import MISSING

FIRST, LAST = "machine", "source"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Answer:
    """What an oracle said of a problem: the cell, and why it chose so and refused others."""

    cell: str
    reason: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


#: Machine -> problem -> answer.
Answers = Mapping[str, Mapping[str, Answer]]


@dataclass(frozen=True)
class Row:
    """The answers of one machine by problem, where they come from, and the row's line in its file.

    `machine` names the row: where a table has several columns of keys, it is all of them with blanks between.
    """

    machine: str
    cells: Mapping[str, str]
    source: str = UNKNOWN
    line: int = 0

    def cell(self, problem: str) -> str:
        return self.cells.get(problem, MISSING)


@dataclass(frozen=True)
class Table:
    """`columns` are the problems, `head` is the text above the table, `widths` are those of the columns in the file.

    `keys` are the columns that name a row. Of several, none holds a blank.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    head: tuple[str, ...] = ()
    widths: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    keys: tuple[str, ...] = (FIRST,)

    def row(self, machine: str) -> Row | None:
        return next((row for row in self.rows if row.machine == machine), None)

    def cell(self, machine: str, problem: str) -> str:
        row = self.row(machine)
        return row.cell(problem) if row else MISSING


def render(table: Table) -> str:
    """The table as text, which Markdown reads too. A column is never narrower than it was, so that diffs stay small."""
    header = (*table.keys, *table.columns, LAST)
    body = [
        (*named(row, table.keys), *(row.cell(column) for column in table.columns), _escaped(row.source))
        for row in table.rows
    ]
    widths = [
        max(table.widths.get(name, 0), 3, *(len(cells[place]) for cells in (header, *body)))
        for place, name in enumerate(header)
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    head = [*table.head, ""] if table.head else []
    return "\n".join([*head, _line(header, widths), rule, *(_line(cells, widths) for cells in body)]) + "\n"


def named(row: Row, keys: tuple[str, ...]) -> list[str]:
    """What stands in a row's columns of keys."""
    return row.machine.split(" ") if len(keys) > 1 else [row.machine]


def _line(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _escaped(source: str) -> str:
    seen = "".join(char if char.isprintable() else " " for char in source)
    return " ".join(seen.split()).replace("|", "\\|")
