"""The checks that show a fault: the same selection on a sound copy of blockscale and on the patched one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from masquerade.contracts import Case, collect, load
from masquerade.contracts.selection import matching
from masquerade.machines import resolve
from masquerade.stage import Check, Record, Stage

from .faults import ROOT, Fault, FaultError, copied

HERE = Path(__file__).parent
SOUND = "sound"

#: What every run of tests imports, and nothing of blockscale's: once for them all.
FIRST = ("pytest", "hypothesis", "numpy")


@dataclass(frozen=True)
class Asked:
    """One check on one copy, and the case of a contract that judges it: none for tests."""

    check: Check
    case: Case | None

    def on(self, folder: str, label: str) -> Check:
        """The check on the copy in `folder`. Tests put it on their path themselves, so that one server serves all."""
        if self.case is None:
            return replace(self.check, args=(*self.check.args, folder), label=label)
        return replace(self.check, path=(folder, *self.check.path), label=label)

    def judged(self, record: Record) -> Record:
        return self.case.judge(replace(record, id=self.case.id)) if self.case else record


class Runs:
    """Makes the records that faults need: those of all `coming` faults at the first question, many at a time.

    folder: where the copies are made. worlds: the platforms whose machines are asked.
    """

    def __init__(self, stage: Stage, folder: Path, worlds: Iterable[str], coming: Iterable[Fault] = ()) -> None:
        self.stage, self.folder, self.worlds, self.coming = stage, folder, frozenset(worlds), tuple(coming)
        self._asked: dict[str, Asked] = {}
        self._records: dict[str, Record] = {}
        self._answers: Iterator[Record] = iter(())
        self._errors: dict[str, FaultError] = {}

    def of(self, fault: Fault, copy: str) -> list[Record]:
        """The judged records of a fault's selection on a copy: SOUND, or the fault's own, which has its name.

        Raises FaultError where the patch does not apply.
        """
        labels = [f"{copy}: {id}" for id in self._selection(fault)]
        if not self._asked.keys() >= set(labels) and fault.name not in self._errors:
            self._ask([fault, *self.coming])
        if fault.name in self._errors:
            raise self._errors[fault.name]
        while not self._records.keys() >= set(labels):
            record = next(self._answers)
            self._records[record.id] = record
        return [self._asked[label].judged(self._records[label]) for label in labels]

    def _ask(self, faults: Iterable[Fault]) -> None:
        self._records |= {record.id: record for record in self._answers}
        new: dict[str, Asked] = {}
        for fault in faults:
            for copy in (SOUND, fault.name):
                if fault.name in self._errors or not (folder := self._copy(fault, copy)):
                    continue
                for id, asked in self._selection(fault).items():
                    label = f"{copy}: {id}"
                    if label not in self._asked:
                        check = asked.on(str(folder), label)
                        new[label] = self._asked[label] = replace(asked, check=check)
        self._answers = self.stage.run_all(asked.check for asked in new.values())

    def _copy(self, fault: Fault, copy: str) -> Path | None:
        folder = self.folder / copy
        if not folder.exists():
            try:
                copied(folder, None if copy == SOUND else fault)
            except FaultError as error:
                self._errors[fault.name] = error
                return None
        return folder

    def _selection(self, fault: Fault) -> dict[str, Asked]:
        """What is asked for a fault, by ids; nothing where its selection is of other worlds."""
        if not fault.by_contracts:
            arguments = (str(ROOT / fault.suite), fault.select)
            check = Check("inside:run", resolve("here"), args=arguments, path=(str(HERE),), timeout=300, first=FIRST)
            return {f"{fault.suite} -k {fault.select!r}": Asked(check, None)} if "cpu" in self.worlds else {}
        cases = _cases(self.stage, fault.suite, fault.select)
        return {case.id: Asked(case.check, case) for case in cases if case.check.machine.platform in self.worlds}


@cache
def _all_cases(stage: Stage, suite: str) -> tuple[Case, ...]:
    return collect(load(file=ROOT / suite / "masquerade.toml").contracts, stage.discover)


@cache
def _cases(stage: Stage, suite: str, select: str) -> tuple[Case, ...]:
    return matching(_all_cases(stage, suite), select)
