"""Two golden tables side by side: which answers are others, and what each oracle said of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from masquerade.contracts.golden.cells import MISSING
from masquerade.contracts.golden.changes import Change, compare
from masquerade.contracts.golden.table import Answer, Answers, Table


@dataclass(frozen=True)
class Moved:
    """One problem's answer that became another, on all machines where it did so, with the reasons."""

    problem: str
    old: str
    new: str
    machines: tuple[str, ...]
    why: tuple[str, ...]


@dataclass(frozen=True)
class Between:
    """How a newer table differs from an older one. `common` counts the answers that both have.

    gone and come are rows and columns that only one of the tables has, as `row t4` and `column bf16`.
    """

    moved: tuple[Moved, ...]
    common: int
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()

    @property
    def answers(self) -> int:
        """How many answers moved."""
        return sum(len(each.machines) for each in self.moved)

    def __bool__(self) -> bool:
        return bool(self.moved or self.gone or self.come)


def between(old: Table, old_reasons: Answers, new: Table, new_reasons: Answers) -> Between:
    """What became of the answers of `old`, told once for all machines where the same did."""
    answers: dict[str, dict[str, Answer]] = {}
    for row in new.rows:
        if old.row(row.machine):
            answers[row.machine] = {
                problem: _answer(row.cell(problem), new_reasons.get(row.machine, {}).get(problem))
                for problem in new.columns
                if problem in old.columns and MISSING not in (row.cell(problem), old.cell(row.machine, problem))
            }
    found = compare(old, old_reasons, answers)
    return Between(
        moved=tuple(_grouped(found, new)),
        common=sum(map(len, answers.values())),
        gone=tuple(_only_in(old, new)),
        come=tuple(_only_in(new, old)),
    )


def _answer(cell: str, said: Answer | None) -> Answer:
    """A cell with its reasons, where they are of this answer."""
    return said if said is not None and said.cell == cell else Answer(cell)


def _grouped(changes: tuple[Change, ...], table: Table) -> Iterator[Moved]:
    """By problem in the order of the table's columns."""
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for problem in table.columns:
        for change in changes:
            if change.problem == problem:
                alike.setdefault((problem, change.old, change.new), []).append(change)
    for (problem, old, new), found in alike.items():
        reasons = dict.fromkeys(reason for change in found for reason in change.why)
        yield Moved(problem, old, new, tuple(change.machine for change in found), tuple(reasons))


def _only_in(one: Table, other: Table) -> Iterator[str]:
    yield from (f"row {row.machine}" for row in one.rows if not other.row(row.machine))
    yield from (f"column {name}" for name in one.columns if name not in other.columns)
