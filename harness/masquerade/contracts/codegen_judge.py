"""One configuration on one machine: the rows that it gives, and the findings on them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from masquerade.contracts import codegen_cells as cells
from masquerade.contracts import codegen_words as words
from masquerade.contracts.call import answered
from masquerade.contracts.codegen_cells import COLUMNS, NOTHING, Failure, Row
from masquerade.contracts.codegen_where import matching
from masquerade.contracts.codegen_words import NO_LAUNCH
from masquerade.contracts.errors import shown
from masquerade.contracts.golden import Change
from masquerade.contracts.golden.cells import MISSING, raised
from masquerade.machines import Machine
from masquerade.stage.record import Finding, Line, Record

if TYPE_CHECKING:
    from masquerade.contracts.codegen import Codegen, Expected

#: The kind of the findings of these contracts.
KIND = "call-mismatch"


@dataclass(frozen=True)
class Outcome:
    """The rows of one case by kernel. `ended` is false where the call broke off, so that rows may be missing."""

    rows: Mapping[str, Row]
    ended: bool


def outcome(record: Record, expected: Expected | None, no_launch: str) -> Outcome:
    """What a record, judged or not, gives. An error has a row where one is `expected`."""
    rows = {kernel: cells.row(launch) for kernel, launch in cells.labelled(record.launches).items()}
    failed, _ = cells.failure(record)
    if failed is not None and expected is not None:
        rows[failed.kernel] = cells.without(raised(failed.error), expected.reason)
    elif failed is None and not rows and no_launch and answered(record):
        rows[NOTHING] = cells.without(NO_LAUNCH, no_launch)
    return Outcome(rows, answered(record) and (failed is None or expected is not None))


@dataclass(frozen=True)
class Judge:
    """Judges the record of one case of `contract`."""

    contract: Codegen
    configuration: str
    machine: Machine

    def judged(self, record: Record) -> tuple[list[Finding], Any]:
        """The findings of a record with those of the contract, and the result that stands for an expected error."""
        places = self.contract.places(self.machine)
        expected = next(matching(self.contract.expect_error, self.configuration, places), None)
        no_launch = next(matching(self.contract.no_launch, self.configuration, places), "")
        findings, result = list(record.findings), record.result
        failed, told = cells.failure(record)
        if expected is not None:
            if failed is None:
                says = f"want an error like {expected.message!r}, got none: take expect_error out, or mend its place"
                findings.append(self._finding("expect_error", record.place, says))
            elif re.search(expected.message, failed.message):
                if told is not None:
                    findings.remove(told)
                result = failed.to_json()
            else:
                says = f"want an error like {expected.message!r}, got {failed.message!r}"
                findings.append(self._finding("expect_error", told.blame if told else record.place, says))
        elif failed is None and answered(record):
            findings += self._launched(record, no_launch)
        launches = cells.labelled(record.launches)
        findings += self._changed(outcome(record, expected, no_launch), launches, failed)
        findings += self._required(launches, places)
        return findings, result

    def _launched(self, record: Record, no_launch: str) -> Iterator[Finding]:
        function = self.contract.function
        if not record.launches and not no_launch:
            says = f"{function} launched no kernel on {self.machine.id}; if that is right, say why in no_launch"
            yield self._finding(NO_LAUNCH, record.place, says)
        elif record.launches and no_launch:
            says = f"{function} launches kernels on {self.machine.id}: take no_launch out, or mend its place"
            yield self._finding("no_launch", record.place, says)

    def _changed(
        self, found: Outcome, launches: Mapping[str, words.Launch], failed: Failure | None
    ) -> Iterator[Finding]:
        """Where rows differ from the table; nothing without one, which the whole of the contract tells."""
        for kernel, row in found.rows.items() if self.contract.table else ():
            key = self.contract.key(self.configuration, kernel, self.machine)
            changes = [
                c for c in (self.contract.cell(key, name, row[name]) for name in COLUMNS) if isinstance(c, Change)
            ]
            # A row that is not in the table is told once; so is one whose kernel has failed, or does so no more.
            once = [c for c in changes if c.old in (MISSING, NOTHING) or c.new == NOTHING]
            for change in changes[:1] if len(once) == len(COLUMNS) else [c for c in changes if c not in once]:
                where = shown(self.contract.golden_file) + (f":{change.line}" if change.line else "")
                blame = cells.place(launches[kernel]) if kernel in launches else None
                yield self._finding(change.what, blame, f"{change.why[0]} ({where})")

    def _required(self, launches: Mapping[str, words.Launch], places: tuple[str, ...]) -> Iterator[Finding]:
        on_places = [word for each in matching(self.contract.requires_on, self.configuration, places) for word in each]
        for word in dict.fromkeys((*self.contract.requires, *on_places)):
            for kernel, launch in launches.items():
                if words.of_matrices(word) and (not self._of_matrices(kernel) or word in self._told(kernel, launch)):
                    continue
                if says := words.broken(word, arch_of(self.machine), kernel, launch):
                    yield self._finding(f"{word}: {kernel}", cells.place(launch), says)

    def _told(self, kernel: str, launch: words.Launch) -> set[str]:
        """The words that the kernel broke by a change which the golden table tells."""
        if self.contract.table is None:
            return set()
        key = self.contract.key(self.configuration, kernel, self.machine)
        return words.lost(self.contract.table.cell(key, COLUMNS[0]), cells.row(launch)[COLUMNS[0]].cell)

    def _of_matrices(self, kernel: str) -> bool:
        return any(fnmatch.fnmatchcase(kernel, pattern) for pattern in self.contract.kernels)

    def _finding(self, what: str, blame: Line | None, says: str) -> Finding:
        return Finding(KIND, what, "call", blame, message=says)


def arch_of(machine: Machine) -> str:
    return machine.arch or "unknown"
