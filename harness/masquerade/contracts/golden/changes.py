"""Where answers differ from a golden table: old and new, and why, told once for all rows that changed alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from masquerade.contracts.golden import cells
from masquerade.contracts.golden.cells import MISSING, Same
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

    @property
    def what(self) -> str:
        return f"{self.problem}: {self.old} -> {self.new}"


@dataclass(frozen=True)
class Compared:
    """A row of the table as it came out: each cell is what the table holds, or how the answer differs from it."""

    machine: str
    cells: tuple[str | Change, ...]
    source: str = ""


@dataclass(frozen=True)
class Comparison:
    """A golden table beside the answers of a run.

    `name` is the contract's, `oracle` the function with the place of its definition, `answers` the number of answers.
    `kind` is that of the findings which tell the same.
    """

    name: str
    file: str
    columns: tuple[str, ...]
    rows: tuple[Compared, ...]
    answers: int
    oracle: str = ""
    kind: str = "route-mismatch"

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(cell for row in self.rows for cell in row.cells if isinstance(cell, Change))


@dataclass(frozen=True)
class Group:
    """Changes that are alike, and the rows that have them all."""

    machines: tuple[str, ...]
    changes: tuple[Change, ...]


def compare(table: Table, reasons: Answers, answers: Answers, same: Same = cells.same_in) -> tuple[Change, ...]:
    """Every answer that is other than the table's, in the order of the answers. What the table lacks is `?` there."""
    out = []
    for machine, row in answers.items():
        for problem, answer in row.items():
            cell = compared(table, reasons, machine, problem, answer, same)
            out += [cell] if isinstance(cell, Change) else []
    return tuple(out)


def compared(
    table: Table, reasons: Answers, machine: str, problem: str, answer: Answer, same: Same = cells.same_in
) -> str | Change:
    """What the table holds in a cell, or how `answer` differs from it."""
    golden = table.row(machine)
    old = golden.cell(problem) if golden else MISSING
    if same(problem, old, answer.cell):
        return old
    because = why(old, answer, reasons.get(machine, {}).get(problem))
    return Change(machine, problem, old, answer.cell, because, golden.line if golden else 0)


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


def lines(comparison: Comparison) -> Iterator[str]:
    """The changes as text: what changed alike is told once. Nothing where all is as the table says."""
    changes = comparison.changes
    if not changes:
        return
    yield f"{comparison.name}: {len(changes)} of {comparison.answers} answers differ from {comparison.file}"
    if comparison.oracle:
        yield f"  asked: {comparison.oracle}"
    for group in grouped(changes):
        places = sorted({change.line for change in group.changes if change.line})
        where = f"line{'s' if len(places) > 1 else ''} {_listed(map(str, places))}" if places else "not in the table"
        yield f"  {_listed(group.machines)} ({where})"
        told: dict[tuple[str, str, str], dict[str, None]] = {}
        for change in group.changes:
            told.setdefault((change.problem, change.old, change.new), {}).update(dict.fromkeys(change.why))
        width = max(len(problem) for problem, _, _ in told)
        for (problem, old, new), whys in told.items():
            yield f"    {problem:<{width}}  want {old}, got {new}"
            yield from (f"      {reason}" for reason in list(whys)[:_MOST])
            if len(whys) > _MOST:
                yield f"      and {len(whys) - _MOST} other reasons"
    if any(change.old == MISSING for change in changes):
        yield "  `masquerade check --golden create` writes the answers that the table lacks"
    if any(change.old != MISSING for change in changes):
        yield "  where the new answers are right, `masquerade check --golden fix` writes them"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    rest = len(found) - _MOST
    return ", ".join(found[:_MOST]) + (f" and {rest} more" if rest > 0 else "")
