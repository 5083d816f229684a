"""What a report is made from: the records of one run, and what the reader must know beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from masquerade.stage.record import SEVERITY, Finding, Level, Record, default_levels

if TYPE_CHECKING:
    from masquerade.contracts import Broken
    from masquerade.contracts.golden import Comparison


@dataclass(frozen=True)
class MachineColumn:
    """A machine as a report names it."""

    id: str
    platform: str
    arch: str

    def to_json(self) -> dict[str, str]:
        return {"id": self.id, "platform": self.platform, "arch": self.arch}


@dataclass(frozen=True)
class Results:
    """The records of one run, in whatever order they came, and what contracts show as a whole beside them.

    `planned` is the number of checks that were to be made: fewer records than that means the run was cut short.
    `host` says where the run was made, `control` is the record of the positive control, `notes` are remarks on the
    whole run, `seconds` is the time by the clock. `roots` are folders of this host that relative files stand below.
    `golden` are the tables of contracts on routing, beside the answers of the run.
    """

    machines: tuple[MachineColumn, ...]
    records: tuple[Record, ...]
    planned: int
    broken: tuple[Broken, ...] = ()
    golden: tuple[Comparison, ...] = ()
    host: dict[str, Any] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=default_levels)
    control: Record | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0
    roots: tuple[str, ...] = ()

    @cached_property
    def ordered(self) -> tuple[Record, ...]:
        """The records by subject, then by machine as the user named them: alike from run to run."""
        column = {machine.id: index for index, machine in enumerate(self.machines)}
        return tuple(sorted(self.records, key=lambda r: (r.subject, column.get(r.machine, len(column)), r.id)))

    @cached_property
    def subjects(self) -> tuple[str, ...]:
        """Every subject that has a record, once, in order."""
        return tuple(dict.fromkeys(record.subject for record in self.ordered))

    @cached_property
    def stand_ins(self) -> dict[str, list[Record]]:
        """Modules in whose place a stand-in was executed, by name, each with the records of those checks."""
        found: dict[str, list[Record]] = {}
        for record in self.ordered:
            for name in record.stand_ins:
                found.setdefault(name, []).append(record)
        return dict(sorted(found.items()))

    @property
    def noun(self) -> str:
        """What the subjects are called in a sentence."""
        return "module" if all(":" not in subject for subject in self.subjects) else "subject"

    @property
    def is_command(self) -> bool:
        """Whether this is one command in disguise, not checks of modules."""
        return len(self.records) == 1 and self.records[0].action == "run"

    @cached_property
    def by_place(self) -> dict[tuple[str, str], Record]:
        """The record of a subject on a machine; the worst one, where several contracts check the same."""
        found: dict[tuple[str, str], Record] = {}
        for record in sorted(self.records, key=_badness):
            found[record.subject, record.machine] = record
        return found

    @property
    def failed(self) -> bool:
        """Whether any record holds a finding of level error, or a contract does not hold as a whole."""
        return bool(self.broken) or any(record.failed for record in self.records)

    @property
    def verdicts(self) -> Counter[str]:
        """How many records have which verdict."""
        return Counter(record.verdict for record in self.ordered)

    def level(self, finding: Finding, record: Record | None = None) -> Level:
        """The level of a finding of this kind; in its record if given, as contracts have levels of their own."""
        return (self.levels if record is None else record.levels).get(finding.kind, "error")

    def shown(self, record: Record) -> Iterable[Finding]:
        """The findings of `record` that are not switched off."""
        return (finding for finding in record.findings if self.level(finding, record) != "off")


def _badness(record: Record) -> tuple[bool, int]:
    """A key that sorts the worst record last."""
    return record.failed, -SEVERITY.index(record.verdict) if record.verdict in SEVERITY else -len(SEVERITY)
