"""A run as Markdown, for GitHub and Buildkite: the matrix, then each distinct finding once, within a size in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from masquerade.report import standins
from masquerade.report.groups import Group, beside_tables, distinct
from masquerade.report.markdown_tables import changes, code, listed, matrix
from masquerade.report.results import Results
from masquerade.report.rows import matrix_rows
from masquerade.report.terminal import closing_line
from masquerade.report.text import first_line, last_lines, plural
from masquerade.stage.record import Line

if TYPE_CHECKING:
    from masquerade.contracts import Broken

_MOST_NAMED = 10  # modules of a finding, import errors of all machines, warnings
_MOST_LINKS = 20
_LAST_WORDS = 8


def document(results: Results, limit: int) -> str:
    """The run as Markdown of at most `limit` bytes; what does not fit is counted at the end."""
    return _within(list(_blocks(results)), limit)


def _blocks(results: Results) -> Iterator[str]:
    groups = distinct(results)
    told = beside_tables(groups, results)
    errors = [group for group in told if group.level == "error"]
    platforms = [group for group in errors if not group.alike]
    yield f"### {'' if results.is_command else 'masquerade: '}{closing_line(results, groups).plain}"
    if results.records and not results.is_command:
        yield matrix(matrix_rows(results, platforms), results)
    if results.broken:
        yield "\n".join(["#### Contracts that do not hold as a whole", "", *map(_whole, results.broken)])
    yield from map(changes, (table for table in results.golden if table.changes))
    yield from map(_finding, platforms)
    yield from _folded("Fails alike on all machines: not a platform's doing", [g for g in errors if g.alike])
    yield from _folded("Warnings", [group for group in told if group.level == "warn"])
    if stood := standins.lines(results):
        yield "\n".join([f"#### {standins.TITLE}", "", *(f"- {code(line)}" for line in stood)])


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


def _whole(broken: Broken) -> str:
    place = f"{broken.file}:{broken.line}" if broken.line else broken.file
    first, *more = broken.message.split("\n")
    return "\n  - ".join([f"- {code(broken.contract)} {code(place)}: {code(first)}", *map(code, map(str.strip, more))])


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
        lines.append(f"- then {what} on {listed(follows.machines, _MOST_NAMED)}{f': {code(says)}' if says else ''}")
    lines += [f"- on {listed(group.machines, _MOST_NAMED)}", f"- in {listed(group.subjects, _MOST_NAMED)}"]
    lines += _way(finding.chain, finding.blame)
    if finding.kind in ("crash", "timeout", "exit"):
        lines += [f"- last words {code(words)}" for words in last_lines(group.last_words, _LAST_WORDS)]
    return "\n".join(lines)


def _messages(group: Group) -> list[str]:
    return [said for said in dict.fromkeys(map(first_line, group.messages)) if said][:2]


def _way(chain: Sequence[Line], blame: Line | None) -> Iterator[str]:
    links = [link for link in chain if not (blame and str(link) == str(blame))]
    if links:
        yield "- by way of"
    for link in links[:_MOST_LINKS]:
        yield f"    - {code(str(link))}{f' {code(link.code.strip())}' if link.code.strip() else ''}"
    if len(links) > _MOST_LINKS:
        yield f"    - and {plural(len(links) - _MOST_LINKS, 'more link')}"


def _folded(title: str, groups: Sequence[Group]) -> Iterable[str]:
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
