"""What every contract has: a name, conditions, an allow-list; cases to run; a judgement of each and of the whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from masquerade.contracts import kinds
from masquerade.contracts.allow import Allow
from masquerade.contracts.conditions import Conditions
from masquerade.contracts.errors import Problem
from masquerade.contracts.settings import Keys, Place, setting
from masquerade.stage.check import Check, Discovery
from masquerade.stage.record import Finding, Record


class Discover(Protocol):
    """Finds the modules of a package. Raises masquerade.stage.SubjectError."""

    def __call__(self, name: str, path: tuple[str, ...]) -> Discovery: ...


@dataclass(frozen=True)
class Broken:
    """What only the whole of a contract shows: an error beside the records, with the line to mend."""

    contract: str
    message: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.contract}: {self.message}"


@dataclass(frozen=True)
class Case:
    """One check of a contract. `id` is `kind/contract/rest@machine`; `file` and `line` are the contract's place."""

    id: str
    owner: Contract = field(repr=False)
    check: Check = field(repr=False)

    @property
    def contract(self) -> str:
        return self.owner.name

    @property
    def kind(self) -> str:
        return self.owner.kind

    @property
    def file(self) -> str:
        return self.owner.file

    @property
    def line(self) -> int:
        return self.owner.line

    def judge(self, record: Record) -> Record:
        """The record as the contract sees it: wrong answers are findings, what is allowed or switched off is none."""
        return self.owner.judge(self, record)


@dataclass(frozen=True, kw_only=True)
class Contract(Conditions, ABC):
    """What must hold on which machines."""

    name: str = setting(kinds.name, "The contract's name, which no other has.")
    kind: str = setting(kinds.text, "imports, calls, routing or codegen.")
    allow: tuple[Allow, ...] = setting(
        kinds.list_of(kinds.object_of(Allow)), "Findings that are known and borne, each with its reason.", ()
    )
    place: Place = field(repr=False, compare=False)

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int:
        return self.place.line

    def wrong(self) -> Iterator[tuple[Keys, str]]:
        yield from super().wrong()
        variants = self.variants()
        for index, entry in enumerate(self.allow):
            if not entry.suits(variants):
                known = ", ".join(machine.id for machine in variants)
                yield ("allow", index, "machine"), f"{entry.machine!r} is no machine of this contract; known: {known}"

    def prepared(self, act: str) -> Contract:
        """This contract with what it keeps in files of its own. `act` is the golden act that is to come, or ""."""
        return self

    @abstractmethod
    def cases(self, discover: Discover) -> tuple[Case, ...]:
        """Every check of this contract. Raises ConfigurationError for a subject that is not there."""

    def judge(self, case: Case, record: Record) -> Record:
        """The record of a case as this contract sees it."""
        return self.settled(record, record.findings)

    def finish(self, records: Iterable[Record]) -> tuple[Broken, ...]:
        """What the judged records of all cases show together; a part of them cannot show that an entry is stale."""
        found = list(records)
        return tuple(self.whole(found)) if found else (self.broken("it checks nothing; nothing checked is no pass"),)

    def whole(self, records: Sequence[Record]) -> Iterator[Broken]:
        """Entries of the allow-list that excuse nothing any more."""
        for entry in self.allow:
            if not any(entry.matches(record, finding) for record in records for finding in record.allowed):
                yield self.broken(f"stale: nothing is left of the allowed {entry}; take the entry out", entry.line)

    def broken(self, message: str, line: int = 0, file: str = "") -> Broken:
        return Broken(self.name, message, file or self.file, line or self.line)

    def problem(self, message: str, *keys: str | int) -> Problem:
        """A mistake in this contract's settings that only looking at the subject shows."""
        return self.place.at(*keys).problem(message)

    def settled(self, record: Record, findings: Iterable[Finding], **changes: Any) -> Record:
        """`record` with these findings, under this contract's levels and allow-list."""
        left, excused, notes = [], [], list(record.notes)
        for finding in findings:
            entry = next((entry for entry in self.allow if entry.matches(record, finding)), None)
            if entry is not None:
                excused.append(finding)
                notes.append(f"allowed: {entry}: {entry.reason}")
            elif self.levels.get(finding.kind, "error") != "off":
                left.append(finding)
        changes |= {"notes": tuple(dict.fromkeys(notes)), "levels": dict(self.levels)}
        return replace(record, findings=tuple(left), allowed=tuple(excused), **changes)
