"""Rows of the matrix: subjects with one verdict a machine, folded by package where a whole package fares alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from masquerade.report.groups import Group
from masquerade.report.results import Results
from masquerade.report.text import plural

#: So many rows are shown as they are; more are folded.
UNFOLDED_ROWS = 30

Cells = tuple[str, ...]
"""One cell a machine: a verdict, in round brackets where it is a warning only, or `-` where no check was made."""


@dataclass(frozen=True)
class Row:
    """`count` subjects that fare alike. `name` is the subject, or `package.*` where it stands for several.

    `is_rest` is true of the row that counts the subjects that are not listed: its name is our own words.
    """

    name: str
    cells: Cells
    count: int = 1
    is_rest: bool = False


def cells(subject: str, results: Results) -> Cells:
    """What became of `subject` on each machine."""
    out = []
    for machine in results.machines:
        record = results.by_place.get((subject, machine.id))
        if record is None:
            out.append("-")
        elif record.failed or record.verdict == "ok":
            out.append(record.verdict)
        else:
            out.append(f"({record.verdict})")
    return tuple(out)


def rows(subjects: list[str], results: Results, *, folded: bool = True) -> list[Row]:
    """A row for each of `subjects`, folded by package when there are many."""
    single = [Row(subject, cells(subject, results)) for subject in subjects]
    return fold(single) if folded and len(single) > UNFOLDED_ROWS else single


def matrix_rows(results: Results, groups: Sequence[Group], *, every: bool = False) -> list[Row]:
    """The rows of the subjects that `groups` hit, or with `every` of all, then one row that counts the rest."""
    hit = {subject for group in groups for subject in group.subjects}
    listed = [subject for subject in results.subjects if every or subject in hit]
    out = rows(listed, results, folded=not every)
    rest = len(results.subjects) - len(listed)
    if rest:
        out.append(_rest(results, set(listed), rest))
    return out


def _rest(results: Results, listed: set[str], rest: int) -> Row:
    counts = []
    for machine in results.machines:
        records = [r for r in results.ordered if r.machine == machine.id and r.subject not in listed]
        ok = sum(not record.failed for record in records)
        some = f"{ok} ok" if ok == len(records) else f"{ok} of {len(records)} ok"
        counts.append("-" if not records else "ok" if ok == rest else some)
    name = plural(rest, f"more {results.noun}") if listed else f"{plural(rest, results.noun)} in all"
    return Row(name, tuple(counts), is_rest=True)


def fold(single: list[Row]) -> list[Row]:
    """Merge rows of one package that have the same cells into `package.*`, from the innermost packages outwards."""
    root = _Node("")
    for row in single:
        node = root
        for part in row.name.partition(":")[0].split("."):
            node = node.children.setdefault(part, _Node(f"{node.name}.{part}" if node.name else part))
        node.own.append(row)
    return [row for child in root.children.values() for row in child.folded()]


@dataclass
class _Node:
    name: str
    own: list[Row] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)

    def folded(self) -> list[Row]:
        below = [row for child in self.children.values() for row in child.folded()]
        if not below:
            return self.own
        merged: dict[Cells, list[Row]] = {}
        for row in [*self.own, *below]:
            merged.setdefault(row.cells, []).append(row)
        return [
            alike[0] if len(alike) == 1 else Row(f"{self.name}.*", same, sum(row.count for row in alike))
            for same, alike in merged.items()
        ]
