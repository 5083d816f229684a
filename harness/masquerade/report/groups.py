"""Distinct findings: one mistake in one line is told once, however many modules and machines it hits."""

from __future__ import annotations

from dataclasses import dataclass, field

from masquerade.report.results import Results
from masquerade.stage.record import SEVERITY, Finding, Level, Record

#: Kinds that often raise as well where the machine lacks what was asked for.
_CAUSES = ("device-init", "fork-poison", "forbidden-import", "forbidden-native")

#: Kinds of finding that only what a contract wants makes one.
_ANSWERS = ("call-mismatch", "route-mismatch")

Place = tuple[str, str]
"""A subject and a machine."""


@dataclass
class Group:
    """Findings of one kind about one thing with one line to mend.

    `finding` is the one with the shortest chain. `places` are the subjects and machines that it hits, in order.
    `alike` is true of an import error that every machine of the run shows: no platform's doing.
    `consequences` are the import errors that follow from it, raised at the same line.
    `last_words` is the end of the output of the first record that has it. `contracts` are those that it breaks.
    """

    finding: Finding
    level: Level
    places: dict[Place, None] = field(default_factory=dict)
    messages: dict[str, None] = field(default_factory=dict)
    last_words: str = ""
    contracts: dict[str, None] = field(default_factory=dict)
    alike: bool = False
    consequences: list[Group] = field(default_factory=list)

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(subject for subject, _ in self.places))

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(machine for _, machine in self.places))

    def by_weight(self) -> tuple[int, int, str, str]:
        """Sorting key: worst kind first, then what hits most modules."""
        kind = self.finding.kind
        severity = SEVERITY.index(kind) if kind in SEVERITY else len(SEVERITY)
        return severity, -len(self.subjects), self.finding.what, str(self.finding.blame)


def distinct(results: Results) -> list[Group]:
    """The distinct findings of a run, worst first. Findings that are switched off are left out."""
    groups: dict[tuple[str, ...], Group] = {}
    for record in results.ordered:
        for finding in results.shown(record):
            level = results.level(finding, record)
            group = groups.setdefault(_key(finding, record), Group(finding, level, last_words=record.output))
            if level == "error":
                group.level = level
            if len(finding.chain) < len(group.finding.chain):
                group.finding = finding
            group.places[record.subject, record.machine] = None
            if record.contract:
                group.contracts[record.contract] = None
            if finding.message:
                group.messages[finding.message] = None
    found = sorted(groups.values(), key=Group.by_weight)
    for group in found:
        group.alike = _alike(group, results)
    return _without_consequences(found)


def beside_tables(groups: list[Group], results: Results) -> list[Group]:
    """The groups without those changes that a golden table of the run tells, together and with their reasons."""
    changed = {(table.kind, change.what) for table in results.golden for change in table.changes}
    return [group for group in groups if (group.finding.kind, group.finding.what) not in changed]


def _key(finding: Finding, record: Record) -> tuple[str, ...]:
    # Where no line is to blame, the message is all that tells two faults apart.
    where = str(finding.blame) if finding.blame else f"?{finding.message}"
    # A wrong answer is a contract's: another one asked something else of the same line.
    asked = record.contract if finding.kind in _ANSWERS else ""
    return finding.kind, finding.what, where, asked


def _alike(group: Group, results: Results) -> bool:
    # What a platform owns is missing on other machines because they are not its own: that is a platform's doing.
    if group.finding.kind != "import-error" or group.finding.missing or len(results.machines) < 2:
        return False
    return all((subject, machine.id) in group.places for subject in group.subjects for machine in results.machines)


def _without_consequences(groups: list[Group]) -> list[Group]:
    """Hang each import error under the worse finding that it follows from; the others stay."""
    kept = []
    for group in groups:
        cause = next((cause for cause in groups if _follows(group, cause)), None)
        if cause is None:
            kept.append(group)
        else:
            cause.consequences.append(group)
    return kept


def _follows(group: Group, cause: Group) -> bool:
    """Whether `group` is an error that the line of `cause` raises wherever it does what it may not."""
    return (
        group.finding.kind == "import-error"
        and cause.finding.kind in _CAUSES
        and cause.level == group.level
        and group.finding.blame is not None
        and str(cause.finding.blame) == str(group.finding.blame)
        and group.places.keys() <= cause.places.keys()
    )
