"""Where answers differ from a golden table: old and new, and why, told once for all rows that changed alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from masquerade.contracts.golden import cells
from masquerade.contracts.golden.cells import MISSING
from masquerade.contracts.golden.table import Answer, Answers, Table

#: Reasons and machines that are told of one group; the rest is counted.
_MOST = 6


@dataclass(frozen=True)
class Change:
    """One cell: `old` is what the table holds, `new` is what the oracle says now. `line` is the row's in its file."""

    machine: str
    problem: str
    old: str
    new: str
    why: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Group:
    """Changes that are alike, and the rows that have them all."""

    machines: tuple[str, ...]
    changes: tuple[Change, ...]


def compare(table: Table, reasons: Answers, answers: Answers) -> tuple[Change, ...]:
    """Every answer that is other than the table's, in the order of the answers. What the table lacks is `?` there."""
    out = []
    for machine, row in answers.items():
        golden = table.row(machine)
        for problem, answer in row.items():
            old = golden.cell(problem) if golden else MISSING
            if not cells.same(old, answer.cell):
                because = why(old, answer, reasons.get(machine, {}).get(problem))
                out.append(Change(machine, problem, old, answer.cell, because, golden.line if golden else 0))
    return tuple(out)


def why(old: str, answer: Answer, before: Answer | None) -> tuple[str, ...]:
    """What the oracle says, now and when the table was written, about the old choice and the new one."""
    was, now = cells.plain(old), cells.plain(answer.cell)
    said = []
    if was in answer.refused:
        said.append(f"{was} is refused: {answer.refused[was]}")
    if before is not None and cells.same(before.cell, old) and now in before.refused:
        said.append(f"{now} was refused before: {before.refused[now]}")
    if answer.reason:
        said.append(answer.reason if answer.cell.startswith("!") else f"{now}: {answer.reason}")
    return tuple(said)


def grouped(changes: Sequence[Change]) -> tuple[Group, ...]:
    """The changes by what changed, and those of the same rows together."""
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        alike.setdefault((change.problem, change.old, change.new), []).append(change)
    by_rows: dict[tuple[str, ...], list[Change]] = {}
    for same in alike.values():
        by_rows.setdefault(tuple(change.machine for change in same), []).extend(same)
    return tuple(Group(machines, tuple(found)) for machines, found in by_rows.items())


def lines(changes: Sequence[Change], file: str, of: int) -> Iterator[str]:
    """The changes as text. `file` is the golden file, `of` the number of answers that were compared."""
    yield f"{len(changes)} of {of} answers differ from {file}"
    for group in grouped(changes):
        places = sorted({change.line for change in group.changes if change.line})
        where = f"line{'s' if len(places) > 1 else ''} {_listed(map(str, places))}" if places else "not in the table"
        yield f"  {_listed(group.machines)} ({where})"
        told: dict[tuple[str, str, str], dict[str, None]] = {}
        for change in group.changes:
            told.setdefault((change.problem, change.old, change.new), {}).update(dict.fromkeys(change.why))
        width = max(len(problem) for problem, _, _ in told)
        for (problem, old, new), whys in told.items():
            yield f"    {problem:<{width}}  {old} -> {new}"
            yield from (f"      {reason}" for reason in list(whys)[:_MOST])
            if len(whys) > _MOST:
                yield f"      and {len(whys) - _MOST} other reasons"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    rest = len(found) - _MOST
    return ", ".join(found[:_MOST]) + (f" and {rest} more" if rest > 0 else "")
