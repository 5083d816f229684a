"""The four acts that change a golden table. Each does its own part and leaves the rest as it is.

create  adds answers that the table does not have yet: rows, columns and cells that hold `?`
fix     puts the new answer in the place of one that is no longer given
update  writes the same answers anew: order, layout, and the oracle's reasons
trim    takes out rows and columns that no longer run
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from masquerade.contracts.golden import cells
from masquerade.contracts.golden.cells import MISSING, Same
from masquerade.contracts.golden.table import UNKNOWN, Answer, Answers, Row, Table


@dataclass(frozen=True)
class Plan:
    """What a table should hold: the machines and problems that run, in their order, and the answers that came.

    `source` is written beside the rows whose answers are new. `same` tells whether two cells of a column say the same.
    """

    machines: Sequence[str]
    problems: Sequence[str]
    answers: Answers
    source: str = UNKNOWN
    same: Same = cells.same_in

    def cell(self, machine: str, problem: str) -> str:
        answer = self.answers.get(machine, {}).get(problem)
        return answer.cell if answer else MISSING


def create(table: Table, plan: Plan) -> Table:
    columns = (*table.columns, *(problem for problem in plan.problems if problem not in table.columns))
    rows = list(table.rows)
    for place, machine in enumerate(plan.machines):
        if table.row(machine) is None and any(plan.cell(machine, problem) != MISSING for problem in columns):
            rows.insert(_after(rows, plan.machines[:place]), Row(machine, {}, plan.source))
    return replace(table, columns=columns, rows=tuple(_filled(row, columns, plan) for row in rows))


def _after(rows: list[Row], before: Sequence[str]) -> int:
    """Where a new row goes: behind the nearest of the machines that come before it."""
    places = {row.machine: place for place, row in enumerate(rows)}
    return next((places[machine] + 1 for machine in reversed(before) if machine in places), 0)


def _filled(row: Row, columns: Sequence[str], plan: Plan) -> Row:
    found = {column: row.cell(column) for column in columns}
    new = {column: plan.cell(row.machine, column) for column, cell in found.items() if cell == MISSING}
    return _answered(replace(row, cells=found), {p: cell for p, cell in new.items() if cell != MISSING}, plan.source)


def fix(table: Table, plan: Plan) -> Table:
    def fixed(row: Row) -> Row:
        new = {problem: plan.cell(row.machine, problem) for problem in row.cells}
        wrong = {
            problem: answer
            for problem, answer in new.items()
            if MISSING not in (answer, row.cell(problem)) and not plan.same(problem, row.cell(problem), answer)
        }
        return _answered(row, wrong, plan.source)

    return replace(table, rows=tuple(map(fixed, table.rows)))


def _answered(row: Row, new: dict[str, str], source: str) -> Row:
    """A row with new answers. Its source speaks for the others, and says for which it does not."""
    if not new:
        return row
    others = any(cell != MISSING for problem, cell in row.cells.items() if problem not in new)
    said = source
    if others and row.source != source:
        said = f"{row.source}; {', '.join(new)}: {source}"
    return replace(row, cells={**row.cells, **new}, source=said)


def update(table: Table, plan: Plan) -> Table:
    columns = tuple(_ordered(table.columns, plan.problems))
    rows = {row.machine: row for row in table.rows}
    tidy = [_tidy(rows[machine], columns, plan) for machine in _ordered(list(rows), plan.machines)]
    return replace(table, columns=columns, rows=tuple(tidy), widths={})


def _tidy(row: Row, columns: Sequence[str], plan: Plan) -> Row:
    """A row whose answers are written as masquerade writes them."""
    as_given = {column: plan.cell(row.machine, column) for column in columns}
    kept = {c: as_given[c] if plan.same(c, row.cell(c), as_given[c]) else row.cell(c) for c in columns}
    return replace(row, cells=kept)


def _ordered(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """The names in this order; those that it lacks come last."""
    return [name for name in order if name in names] + [name for name in names if name not in order]


def trim(table: Table, plan: Plan) -> Table:
    columns = tuple(column for column in table.columns if column in plan.problems)
    rows = [
        replace(row, cells={column: row.cell(column) for column in columns})
        for row in table.rows
        if row.machine in plan.machines
    ]
    return replace(table, columns=columns, rows=tuple(rows))


ACTS: dict[str, Callable[[Table, Plan], Table]] = {"create": create, "fix": fix, "update": update, "trim": trim}


def act(name: str, table: Table, reasons: Answers, plan: Plan) -> tuple[Table, Answers]:
    """The table after one of the acts, and the reasons of what it holds."""
    after = ACTS[name](table, plan)
    kept: dict[str, dict[str, Answer]] = {}
    for row in after.rows:
        old, new = reasons.get(row.machine, {}), plan.answers.get(row.machine, {})
        for problem in after.columns:
            renewed = name == "update" or table.cell(row.machine, problem) != row.cell(problem)
            for said in (new.get(problem) if renewed else None, old.get(problem)):
                if said is not None and plan.same(problem, said.cell, row.cell(problem)):
                    kept.setdefault(row.machine, {})[problem] = said
                    break
    return after, kept
