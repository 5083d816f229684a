"""All rows that the records of a codegen contract give, in the order of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade.contracts import codegen_cells as cells
from masquerade.contracts.codegen_cells import NOTHING, Row
from masquerade.contracts.codegen_words import LEFT_OUT
from masquerade.stage.record import Record

if TYPE_CHECKING:
    from masquerade.contracts.codegen import Codegen


@dataclass(frozen=True)
class Rows:
    """Rows by key.

    `answers` are all that are known, sorted by configuration, then kernel, then machine. `fixed` are those among them
    that need no record. `unknown` are keys of the table whose case did not run, or broke off.
    """

    answers: Mapping[str, Row]
    fixed: Mapping[str, Row]
    unknown: frozenset[str]

    def order(self, table: tuple[str, ...]) -> list[str]:
        """All keys that have or may have a row; those that are unknown stand where the table has them."""
        order = list(self.answers)
        above = ""
        for key in table:
            if key in self.unknown:
                order.insert(order.index(above) + 1 if above else 0, key)
            above = key if key in order else above
        return order


def rows(contract: Codegen, records: Mapping[str, Record]) -> Rows:
    """The rows that these records, by id and judged or not, give."""
    blocks: dict[str, dict[str, dict[str, Row]]] = {name: {} for name in contract.configurations}
    fixed: dict[str, Row] = {}
    known = set()
    for name, machine in contract.pairs():
        if why := contract.why_left_out(name, machine):
            key = contract.key(name, NOTHING, machine)
            fixed[key] = blocks[name].setdefault(NOTHING, {})[key] = cells.without(LEFT_OUT, why)
            known.add((name, machine.id))
            continue
        record = records.get(contract.id(name, machine))
        if record is None:
            continue
        found = contract.outcome(name, machine, record)
        for kernel, row in found.rows.items():
            blocks[name].setdefault(kernel, {})[contract.key(name, kernel, machine)] = row
        if found.ended:
            known.add((name, machine.id))
    answers = {key: row for block in blocks.values() for kernel in block.values() for key, row in kernel.items()}
    cases = {(name, machine.id) for name, machine in contract.pairs()} - known
    table = contract.table.rows if contract.table else ()
    unknown = frozenset(row.machine for row in table if cells.case_of(row.machine) in cases)
    return Rows(answers, fixed, unknown - answers.keys())
