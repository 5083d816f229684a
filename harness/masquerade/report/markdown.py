"""A run as Markdown, for GitHub and Buildkite: the matrix, then each distinct finding once, within a size in bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from masquerade.report.columns import Column, columns
from masquerade.report.groups import Group, distinct
from masquerade.report.results import Results
from masquerade.report.rows import Row, matrix_rows
from masquerade.report.terminal import closing_line
from masquerade.report.text import clean, clip, first_line, last_lines, plural
from masquerade.stage.record import Line

if TYPE_CHECKING:
    from masquerade.contracts import Broken

_ROOM = 160  # characters of a line of the matrix before machines share columns
_MOST_ROWS = 100
_MOST_NAMED = 10  # modules of a finding, import errors of all machines, warnings
_MOST_LINKS = 20
_LAST_WORDS = 8

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


def document(results: Results, limit: int) -> str:
    """The run as Markdown of at most `limit` bytes; what does not fit is counted at the end."""
    return _within(list(_blocks(results)), limit)


def _blocks(results: Results) -> Iterator[str]:
    groups = distinct(results)
    errors = [group for group in groups if group.level == "error"]
    platforms = [group for group in errors if not group.alike]
    yield f"### {'' if results.is_command else 'masquerade: '}{closing_line(results, groups).plain}"
    if results.records and not results.is_command:
        yield _matrix(matrix_rows(results, platforms), results)
    if results.broken:
        yield "\n".join(["#### Contracts that do not hold as a whole", "", *map(_whole, results.broken)])
    yield from map(_finding, platforms)
    yield from _listed("Fails alike on all machines: not a platform's doing", [g for g in errors if g.alike])
    yield from _listed("Warnings", [group for group in groups if group.level == "warn"])


def _within(blocks: Sequence[str], limit: int) -> str:
    """As many whole blocks as fit."""
    out: list[str] = []
    room = limit - 200  # for the closing remark
    for index, block in enumerate(blocks):
        room -= len(block.encode()) + 2
        if room < 0:
            out.append(f"{plural(len(blocks) - index, 'more section')} did not fit; the JSON report has everything.")
            break
        out.append(block)
    return "\n\n".join(out) + "\n"


def _matrix(rows: Sequence[Row], results: Results) -> str:
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


def _whole(broken: Broken) -> str:
    place = f"{broken.file}:{broken.line}" if broken.line else broken.file
    return f"- {code(broken.contract)} {code(place)}: {code(broken.message)}"


def _finding(group: Group) -> str:
    finding = group.finding
    lines = [f"#### {finding.kind}: {code(finding.what)}{' in the call' if finding.phase == 'call' else ''}", ""]
    if finding.blame:
        lines += [code(str(finding.blame)), ""]
        if finding.blame.code.strip():
            lines += [f"> {code(finding.blame.code.strip())}", ""]
    lines += [f"- says {code(said)}" for said in _messages(group)]
    for follows in group.consequences:
        says = next(iter(_messages(follows)), "")
        what = code(follows.finding.what)
        lines.append(f"- then {what} on {_list(follows.machines)}{f': {code(says)}' if says else ''}")
    lines += [f"- on {_list(group.machines)}", f"- in {_list(group.subjects)}"]
    lines += _way(finding.chain, finding.blame)
    if finding.kind in ("crash", "timeout", "exit"):
        lines += [f"- last words {code(words)}" for words in last_lines(group.last_words, _LAST_WORDS)]
    return "\n".join(lines)


def _messages(group: Group) -> list[str]:
    return [said for said in dict.fromkeys(map(first_line, group.messages)) if said][:2]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(code, names[:_MOST_NAMED]))
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


def _way(chain: Sequence[Line], blame: Line | None) -> Iterator[str]:
    links = [link for link in chain if not (blame and str(link) == str(blame))]
    if links:
        yield "- by way of"
    for link in links[:_MOST_LINKS]:
        yield f"    - {code(str(link))}{f' {code(link.code.strip())}' if link.code.strip() else ''}"
    if len(links) > _MOST_LINKS:
        yield f"    - and {plural(len(links) - _MOST_LINKS, 'more link')}"


def _listed(title: str, groups: Sequence[Group]) -> Iterable[str]:
    """A folded list, a line each; nothing without groups."""
    if not groups:
        return
    lines = [f"<details><summary>{title}: {len(groups)}</summary>", ""]
    for group in groups[:_MOST_NAMED]:
        finding = group.finding
        said = next(iter(_messages(group)), "")
        where = f" {code(str(finding.blame))}" if finding.blame else ""
        reach = f"{plural(len(group.subjects), 'module')} on {plural(len(group.machines), 'machine')}"
        lines.append(f"- {finding.kind}: {code(finding.what)}{f' {code(said)}' if said else ''}{where} ({reach})")
    if len(groups) > _MOST_NAMED:
        lines.append(f"- and {len(groups) - _MOST_NAMED} more")
    yield "\n".join([*lines, "", "</details>"])
