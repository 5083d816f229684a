"""Tables of a Markdown page, and the code in their cells: the matrix, and what changed against a golden table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from masquerade.report.columns import Column, columns
from masquerade.report.results import Results
from masquerade.report.rows import Row
from masquerade.report.text import clean, clip, plural

if TYPE_CHECKING:
    from masquerade.contracts.golden import Change, Comparison

_ROOM = 160  # characters of a line of the matrix before machines share columns
_MOST_ROWS = 100
_MOST_NAMED = 10  # machines of a change
_MOST_REASONS = 5

# What a code span cannot hold: a backtick ends it, a bar ends a table's cell, and blanks at its ends are lost.
_NO_SPAN = re.compile(r"[`|\\]|^\s|\s$|^$")
_PUNCTUATION = re.compile(r"[^\w ]", re.ASCII)


def code(text: str) -> str:
    """A subject's text as code on one line, inert wherever it stands: also in a table, also with backticks in it.

    Source: CommonMark 0.31, sections 6.1 (nothing inside a code span is markup) and 2.5 (a character reference is never
    markup); GitHub Flavored Markdown, section 4.10 (tables).
    """
    text = clip(clean(text))
    if not _NO_SPAN.search(text):
        return f"`{text}`"
    return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', text)}</code>"


def matrix(rows: Sequence[Row], results: Results) -> str:
    shown = rows if len(rows) <= _MOST_ROWS else rows[: _MOST_ROWS - 1]
    found = columns(rows, results.machines, _ROOM)
    lines = [
        _line("", *(f"{column.platform}<br>{code(column.name)}" for column in found)),
        _line(*["---"] * (len(found) + 1)),
    ]
    for index, row in enumerate(shown):
        count = f" ({plural(row.count, 'module')})" if row.count > 1 else ""
        name = row.name if row.is_rest else f"{code(row.name)}{count}"
        lines.append(_line(name, *(_cell(column, index) for column in found)))
    if len(shown) < len(rows):
        lines.append(_line(f"{len(rows) - len(shown)} more rows", *[""] * len(found)))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: Column, row: int) -> str:
    cell = column.cells[row]
    return cell if cell.endswith("ok") or cell == "-" or cell.startswith("(") else f"**{cell}**"


def changes(table: Comparison) -> str:
    """What changed, told once for all machines where it changed alike."""
    from masquerade.contracts.golden import grouped

    lines = [
        f"#### {table.kind}: {code(table.name)}",
        "",
        f"{len(table.changes)} of {plural(table.answers, 'answer')} differ from {code(table.file)}.",
        "",
        _line("problem", "want", "got", "on", "why"),
        _line(*["---"] * 5),
    ]
    rows = [row for group in grouped(table.changes) for row in _changed(group.machines, group.changes)]
    lines += rows[:_MOST_ROWS]
    if len(rows) > _MOST_ROWS:
        lines.append(_line(f"{len(rows) - _MOST_ROWS} more rows", *[""] * 4))
    return "\n".join(lines)


def _changed(machines: Sequence[str], changes: Sequence[Change]) -> Iterator[str]:
    told: dict[tuple[str, str, str], dict[str, None]] = {}
    for change in changes:
        told.setdefault((change.problem, change.old, change.new), {}).update(dict.fromkeys(change.why))
    on = listed(machines, _MOST_NAMED)
    for (problem, old, new), why in told.items():
        reasons = [code(reason) for reason in list(why)[:_MOST_REASONS]]
        yield _line(code(problem), code(old), f"**{code(new)}**", on, "<br>".join(reasons))


def listed(names: Sequence[str], most: int) -> str:
    """The names as code, the first `most` of them."""
    shown = ", ".join(map(code, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
