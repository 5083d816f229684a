"""Contracts on routing: an oracle chooses, for each problem on each machine, what the golden table says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from masquerade.contracts import golden, kinds
from masquerade.contracts.call import Asked, exception
from masquerade.contracts.conditions import with_packages
from masquerade.contracts.contract import Broken, Case, Discover
from masquerade.contracts.errors import shown
from masquerade.contracts.golden import Answer, Answers, Change, Compared, Comparison, Plan, Table
from masquerade.contracts.golden.cells import MISSING
from masquerade.contracts.golden.table import FIRST, LAST
from masquerade.contracts.oracle import BACKENDS, VALUES, NoAnswerError, answer, as_result
from masquerade.contracts.settings import Keys, Place, WrongError, hint, setting, spoken
from masquerade.contracts.tabled import Pairs, Tabled
from masquerade.machines import Machine
from masquerade.stage.record import Finding, Record

_LIBRARY = re.compile(r"([+-])([^+-]+)")
_LIBRARIES = re.compile(r"([+-][A-Za-z_][\w.]*)*")


def library_set(value: Any, place: Place) -> str:
    """Packages that are present or absent together, as in the name of a machine: +aiter-flashinfer."""
    if not isinstance(value, str) or not _LIBRARIES.fullmatch(value):
        expected = 'packages with + or -, like "+aiter-flashinfer", or "" for none'
        raise WrongError(f"expected {expected}; found {spoken(value)}")
    return value


def column(value: Any, place: Place) -> str:
    """The name of a problem, which becomes a column."""
    if kinds.name(value, place) in (FIRST, LAST):
        raise WrongError(f"{value!r} is a column of every golden table; choose another name")
    return str(value)


@dataclass(frozen=True)
class Cell(Case):
    """One problem on one machine."""

    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Routing(Tabled):
    """The oracle is asked each problem on each machine with each set of libraries, in a process of its own."""

    function: str = setting(kinds.function, "The oracle, as pkg.mod:func.")
    problems: Mapping[str, Asked] = setting(
        kinds.table_of(kinds.object_of(Asked), column), "The problems by name: args, kwargs, factory, env of each."
    )
    libraries: tuple[str, ...] = setting(
        kinds.some_of(library_set), 'Sets of packages for every machine, as `["", "+aiter", "-aiter"]`.', ("",)
    )
    golden: str = setting(kinds.file, "The golden table's file; its reasons lie beside it, in a .reasons.json file.")
    answers: str = setting(
        kinds.one_of(BACKENDS, VALUES),
        "What the oracle answers with: backends (a text, or an object or dict with backend), or any values of JSON.",
        BACKENDS,
    )

    def wrong(self) -> Iterator[tuple[Keys, str]]:
        yield from super().wrong()
        if not self.problems:
            yield ("problems",), "there is no problem to ask: nothing would be checked"
        if any(self.libraries) and any(machine.platform == "here" for machine in self.machines):
            yield ("libraries",), "the machine here has the packages that are installed: none can be added or hidden"

    @property
    def golden_file(self) -> str:
        return self.golden

    @property
    def head(self) -> tuple[str, ...]:
        return (f"# {self.function}",)

    def prepared(self, act: str) -> Routing:
        """With its golden table; reports what is wrong with the file. `act` is what will be done to it, if anything."""
        table = self.attempted(lambda: golden.read(self.golden))
        reasons = self.attempted(lambda: golden.read_reasons(self.golden)) or {}
        if table is not None and act != "trim":
            for name in table.columns:
                if name not in self.problems:
                    says = f"column {name!r} is no problem of {self.name}{hint(name, self.problems)}"
                    mend = "Rename it, or take it out with `masquerade check --golden trim`"
                    stop = "" if says.endswith("?") else "."
                    self.report_golden(self.golden, table.lines[name], f"{says}{stop} {mend}")
        if act and (why := golden.unwritable(self.golden)):
            self.report_golden(self.golden, 0, why)
        return replace(self, table=table, reasons=reasons)

    def variants(self) -> tuple[Machine, ...]:
        made = {}
        for machine in super().variants():
            for libraries in self.libraries:
                signs = _LIBRARY.findall(libraries)
                present = [package for sign, package in signs if sign == "+"]
                absent = [package for sign, package in signs if sign == "-"]
                variant = with_packages(machine, present, absent)
                made[variant.id] = variant
        return tuple(made.values())

    def cases(self, discover: Discover) -> tuple[Case, ...]:
        out = []
        for machine in self.variants():
            for name, asked in self.problems.items():
                id = f"{self.kind}/{self.name}/{name}@{machine.id}"
                more = {**asked.call(), "env": asked.env, "oracle": self.answers == BACKENDS}
                out.append(Cell(id, self, self.check(self.function, machine, id, **more), name))
        return tuple(out)

    def judge(self, case: Case, record: Record) -> Record:
        problem = case.problem if isinstance(case, Cell) else ""
        findings = list(record.findings)
        raised = exception(record)
        try:
            got = answer(record, self.answers)
        except NoAnswerError as error:
            what = f"{problem}: no answer"
            findings.append(Finding("route-mismatch", what, "call", record.place, message=str(error)))
            got = None
        changes: dict[str, Any] = {"subject": f"{self.function}[{problem}]"}
        if raised is not None:
            findings.remove(raised)
            changes["result"] = as_result(raised)
        if got is not None:
            findings += self._compared(case.check.machine.id, problem, got, raised, record)
        return self.settled(record, findings, **changes)

    def _compared(
        self, machine: str, problem: str, got: Answer, raised: Finding | None, record: Record
    ) -> Iterator[Finding]:
        change = golden.compared(self.table or Table(), self.reasons, machine, problem, got)
        if not isinstance(change, Change):
            return
        if change.old == MISSING:
            says = f"no golden answer yet, got {change.new}; `masquerade check --golden create` writes it"
        else:
            says = f"want {change.old}, got {change.new} ({shown(self.golden)}:{change.line})"
        yield Finding(
            "route-mismatch",
            change.what,
            "call",
            raised.blame if raised else record.place,
            chain=raised.chain if raised else (),
            stack=raised.stack if raised else (),
            message="; ".join([says, *change.why]),
        )

    def whole(self, records: Sequence[Record]) -> Iterator[Broken]:
        yield from super().whole(records)
        if self.table is None:
            answered = any(self._answer(record) is not None for record in records)
            mend = "; `masquerade check --golden create` writes it" if answered else ", and no answer came to write"
            says = f"there is no golden table yet{mend}"
            yield self.broken(f"{shown(self.golden)}: {says}")
        running = {machine.id for machine in self.variants()}
        for row in self.table.rows if self.table else ():
            if row.machine not in running:
                says = f"stale: row {row.machine} no longer runs; put the machine back, or take the row out with "
                yield self.broken(f"{says}`masquerade check --golden trim`", row.line, shown(self.golden))

    # -- the table as a whole, for golden acts and reports ------------------------------------------------------------

    def answers_of(self, pairs: Pairs) -> Answers:
        """The answers of this contract in records, judged or not, by machine and problem; none where none came."""
        found: dict[str, dict[str, Answer]] = {}
        for case, record in pairs:
            if isinstance(case, Cell) and case.contract == self.name:
                got = self._answer(record)
                if got is not None:
                    found.setdefault(case.check.machine.id, {})[case.problem] = got
        return found

    def _answer(self, record: Record) -> Answer | None:
        """The answer in a record, judged or not; None where none came."""
        with suppress(NoAnswerError):
            return answer(record, self.answers)
        return None

    def compared(self, pairs: Pairs) -> Comparison:
        pairs = list(pairs)
        answers, table = self.answers_of(pairs), self.table or Table()
        places = {record.place for case, record in pairs if case.contract == self.name and record.place}
        oracle = f"{self.function}{f' in {min(map(str, places))}' if places else ''}"
        rows = []
        for machine in (variant.id for variant in self.variants() if variant.id in answers):
            golden_row = table.row(machine)
            cells = [
                golden.compared(table, self.reasons, machine, problem, answers[machine][problem])
                if problem in answers[machine]
                else table.cell(machine, problem)
                for problem in self.problems
            ]
            rows.append(Compared(machine, tuple(cells), golden_row.source if golden_row else ""))
        count = sum(len(row) for row in answers.values())
        return Comparison(self.name, shown(self.golden), tuple(self.problems), tuple(rows), count, oracle)

    def doubts(self, before: Table | None, pairs: Pairs) -> Iterator[str]:
        """Problems whose new answers are one exception wherever they were asked: the question may be wrong."""
        answers, old, new = self.answers_of(pairs), before or Table(), self.table or Table()
        for problem in self.problems:
            said = {machine: row[problem] for machine, row in answers.items() if problem in row}
            renewed = any(old.cell(machine, problem) != new.cell(machine, problem) for machine in said)
            cells = {each.cell for each in said.values()}
            cell = min(cells, default="")
            if renewed and len(cells) == 1 and cell.startswith("!"):
                where = "all machines" if 1 < len(said) == len(self.variants()) else ", ".join(said)
                why = next(iter(said.values())).reason.removeprefix(f"{cell[1:]}: ")
                yield f"{problem} is {cell} on {where}{f': {why}' if why else ''}"

    def plan(self, pairs: Pairs, source: str) -> Plan:
        machines = [machine.id for machine in self.variants()]
        return Plan(machines, list(self.problems), self.answers_of(pairs), source)
