"""Making checks: find the modules, see that the tool is not blind, run everything, report what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from masquerade.cli.failures import FAILED, INTERRUPTED, ToolError, status_of
from masquerade.cli.options import Reporting
from masquerade.cli.ports import StagePort

if TYPE_CHECKING:
    from masquerade.contracts import Broken
    from masquerade.contracts.golden import Comparison
    from masquerade.machines import Machine
    from masquerade.remembered import Memory
    from masquerade.report.results import Results
    from masquerade.stage.client import Check
    from masquerade.stage.record import Record

UNKNOWN = "unknown"
#: What a report says of the subject's interpreter.
HOST_FACTS = ("python", "executable", "system", "torch", "torch_error")


@dataclass
class Run:
    """One run of checks, as far as it came: after an interruption or a failure of the stage the rest is still told."""

    machines: list[Machine]
    reporting: Reporting
    records: list[Record] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    golden: list[Comparison] = field(default_factory=list)
    planned: int = 0
    host: dict[str, Any] = field(default_factory=dict)
    control: Record | None = None
    notes: list[str] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    interrupted: bool = False
    status: int = INTERRUPTED
    failure: str = ""
    started: float = field(default_factory=time.monotonic)

    def find(self, stage: StagePort, subjects: Iterable[str], path: tuple[str, ...]) -> list[str]:
        """The modules and functions to check, each once.

        Raises: click.UsageError for a subject that is not there, and when there is nothing to check.
        """
        found: dict[str, None] = {}
        for subject in subjects:
            module, colon, _ = subject.partition(":")
            discovery = stage.discover(module, path=path)
            self.roots += (discovery.root, *path)
            if colon:
                found[subject] = None
            else:
                found.update(dict.fromkeys(discovery.modules))
                self.notes += discovery.notes
        if not found:
            raise click.UsageError(f"nothing to check: {', '.join(subjects)} holds no module")
        return list(found)

    def check(self, stage: StagePort, checks: list[Check], flat: bool = False, memory: Memory | None = None) -> None:
        """Make the positive control, then all checks; `flat` pays for each module's whole import anew.

        `memory` gives those whose results an earlier run left.
        """
        from masquerade.cli.progress import progress
        from masquerade.cli.remarks import remarks
        from masquerade.stage import StageError
        from masquerade.stage.client import blind
        from masquerade.stage.standins import stale

        self.planned = len(checks)
        self.notes += stale(checks, stage.discover)
        self.host = {key: stage.facts.get(key) for key in HOST_FACTS}
        try:
            self.control = stage.control()
            if blind(self.control):
                raise ToolError(f"blind: the positive control, a known fault, gave {self.control.verdict}")
            if memory is not None and not flat:
                records = memory.scan(stage, checks)
            else:
                records = (stage.run_all if flat else stage.scan)(checks)
            with progress(len(checks)) as advance:
                for record in records:
                    self.records.append(record)
                    advance(record)
            self.notes += remarks(checks, self.records, stage)
        except KeyboardInterrupt as stop:
            self.interrupted = True
            self.status = status_of(stop)
        except StageError as error:
            self.failure = str(error)
        else:
            if len(self.records) != self.planned:
                self.failure = f"{len(self.records)} records came from {self.planned} checks"

    def results(self) -> Results:
        from masquerade.report.results import MachineColumn, Results

        return Results(
            machines=tuple(MachineColumn(m.id, m.platform, m.arch or UNKNOWN) for m in self.machines),
            records=tuple(self.records),
            planned=self.planned,
            broken=tuple(self.broken),
            golden=tuple(self.golden),
            host=self.host,
            levels=self.reporting.levels,
            control=self.control,
            notes=tuple(dict.fromkeys(self.notes)),
            interrupted=self.interrupted or bool(self.failure),
            seconds=time.monotonic() - self.started,
            roots=tuple(dict.fromkeys(self.roots)),
        )

    def report(self, every: bool) -> None:
        """Print and write all reports, then end with the status that the run has.

        Raises: ToolError; click.exceptions.Exit with 1, 130, or 128 + the signal that ended it.
        """
        if self.failure and not self.records:
            raise ToolError(self.failure)
        results = self.results()
        self.reporting.tell(results, every)
        if self.failure:
            raise ToolError(self.failure)
        if self.interrupted:
            raise click.exceptions.Exit(self.status)
        if results.failed:
            raise click.exceptions.Exit(FAILED)


def refuse_missing(words: Iterable[tuple[str, tuple[str, ...]]], checks: Iterable[Check], stage: StagePort) -> None:
    """Raises click.UsageError for modules of --owner that are not there: nothing would be found of them."""
    from masquerade.stage.owners import asked_of, missing

    named = {module: platform for platform, modules in words for module in modules}
    wrong = missing(named, checks, asked_of(stage.discover))
    if wrong:
        raise click.UsageError("\n".join(f"--owner {named[name]}={name}: {mend}" for name, mend in wrong.items()))
