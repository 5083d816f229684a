"""Reads the text of a golden table, and tells of each bad line how it is mended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from masquerade.contracts.golden.table import FIRST, LAST, UNKNOWN, Row, Table

_CONFLICT = re.compile(r"(<{7}|={7}|>{7}|\|{7})( .*)?")
_RULE = re.compile(r"\|(\s*:?-+:?\s*\|)+")
_BAR = re.compile(r"(?<!\\)\|")

Report = Callable[[int, str], None]


def parse(data: bytes, report: Report, keys: tuple[str, ...] = (FIRST,)) -> Table:
    """The table in a file's bytes, as far as it could be read. Reports (line, message) for all that is wrong.

    `keys` are the columns that name a row.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        report(1, "it begins with a byte-order mark; save it as UTF-8 without one")
        data = data[3:]
    if b"\r" in data:
        line = data[: data.index(b"\r")].count(b"\n") + 1
        report(line, "it has Windows line ends; save it with \\n, and keep it so: `eol=lf` in .gitattributes")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        report(data[: error.start].count(b"\n") + 1, "it is not UTF-8; save it as UTF-8")
        text = data.decode("utf-8", "replace")
    return _Parser(report, keys).table(text.split("\n"))


@dataclass
class _Parser:
    report: Report
    keys: tuple[str, ...]
    head: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    begun: bool = False

    def table(self, lines: list[str]) -> Table:
        for number, line in enumerate(lines, 1):
            if _CONFLICT.fullmatch(line):
                self.report(number, "a conflict marker of a merge; keep one side of each row and take the markers out")
            elif line.startswith("|"):
                self._table_line(number, line.rstrip())
            elif not self.begun:
                self.head.append(line.rstrip())
            elif line.strip():
                self.report(number, f"text below the table: {line.strip()[:40]!r}; move it above the table")
        if not self.begun:
            self.report(0, "it holds no table; delete it, and `masquerade check --golden create` makes it anew")
        head = "\n".join(self.head).strip("\n")
        above = tuple(head.split("\n")) if head else ()
        return Table(tuple(self.columns), tuple(self.rows.values()), above, self.widths, self.lines, self.keys)

    def _table_line(self, number: int, line: str) -> None:
        if not line.endswith("|"):
            self.report(number, "the row does not end with '|'; complete it")
            return
        cells = [cell.strip() for cell in _BAR.split(line)[1:-1]]
        if not self.begun:
            self._header(number, line, cells)
        elif _RULE.fullmatch(line) is None:
            self._row(number, cells)

    def _header(self, number: int, line: str, names: list[str]) -> None:
        self.begun = True
        count = len(self.keys)
        if len(names) <= count or tuple(names[:count]) != self.keys or names[-1] != LAST:
            first = f"columns must be {', '.join(self.keys)}" if count > 1 else f"column must be {FIRST!r}"
            self.report(number, f"the first {first} and the last one {LAST!r}")
            return
        for name, cell in zip(names, _BAR.split(line)[1:-1], strict=True):
            if name in self.lines:
                self.report(number, f"column {name!r} is there twice; take one of the two out")
            self.lines[name] = number
            self.widths[name] = len(cell) - 2
        self.columns = names[count:-1]

    def _row(self, number: int, cells: list[str]) -> None:
        width = len(self.keys) + len(self.columns) + 1
        if len(cells) != width:
            says = f"the row has {len(cells)} cells and the table {width} columns"
            self.report(number, f"{says}; write one cell for each column, ? for an answer that is not known")
            return
        *names, source = cells
        machine, answers = " ".join(names[: len(self.keys)]), names[len(self.keys) :]
        if machine in self.rows:
            first = self.rows[machine].line
            self.report(number, f"{machine!r} has a row in line {first} already; keep the right one of the two")
            return
        if not all(names):
            self.report(number, "a cell is empty; write ? for an answer that is not known")
        self.rows[machine] = Row(
            machine, dict(zip(self.columns, answers, strict=True)), source.replace("\\|", "|") or UNKNOWN, number
        )
