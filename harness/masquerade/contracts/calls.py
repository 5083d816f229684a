"""Contracts on calls: a function gives the right answer, loads no foreign module, and costs no more than it should."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.contracts import kinds
from masquerade.contracts.call import Call, answered, exception, spoken
from masquerade.contracts.contract import Case, Contract, Discover
from masquerade.contracts.expectation import ANYTHING, NONE, PerMachine, per_machine, same
from masquerade.contracts.settings import Keys, setting
from masquerade.stage.record import Finding, Line, Record


@dataclass(frozen=True, kw_only=True)
class Calls(Call, Contract):
    """One function is called on each machine, after its module was imported."""

    function: str = setting(kinds.function, "The function to call, as pkg.mod:func.")
    want: Any = setting(kinds.literal, "The answer, where all machines give the same.", ANYTHING)
    want_on: Mapping[str, Any] = setting(kinds.table_of(kinds.literal), "The answer by machine or platform.", dict)
    raises: PerMachine[str] = setting(
        per_machine(kinds.exception),
        "The exception that must come, by its type's own name; or a table of them by machine or platform.",
        NONE,
    )
    message: str = setting(kinds.regular_expression, "A regular expression to be found in the exception's message.", "")
    probes: Mapping[str, PerMachine[int]] = setting(
        kinds.table_of(per_machine(kinds.calls), kinds.function),
        "How often functions run in the call: pkg.mod:func = number, or a table by machine or platform.",
        dict,
    )

    def wrong(self) -> Iterator[tuple[Keys, str]]:
        yield from super().wrong()
        tables: list[tuple[Keys, PerMachine[Any]]] = [
            (("want_on",), PerMachine(ANYTHING, self.want_on)),
            (("raises",), self.raises),
            *((("probes", probe), number) for probe, number in self.probes.items()),
        ]
        known = [name for machine in self.variants() for name in self.names(machine)]
        for keys, table in tables:
            for inner, message in table.strangers(known):
                yield (*keys, *inner), message
        if self.raises.common is not ANYTHING and (self.want is not ANYTHING or self.want_on):
            yield ("raises",), "what raises gives no answer: leave out want, or say where it raises: {cpu = ...}"
        if self.message and self.raises == NONE:
            yield ("message",), "the message of which exception? name its type in raises"

    def cases(self, discover: Discover) -> tuple[Case, ...]:
        out = []
        for machine in self.variants():
            id = f"{self.kind}/{self.name}/{self.function}@{machine.id}"
            more = {**self.call(), "probes": tuple(self.probes)}
            out.append(Case(id, self, self.check(self.function, machine, id, **more)))
        return tuple(out)

    def judge(self, case: Case, record: Record) -> Record:
        machine = case.check.machine
        names = self.names(machine)
        want = PerMachine(self.want, self.want_on).pick(machine, names)
        findings = self._ended(record, self.raises.pick(machine, names), want)
        for probe, number in self.probes.items():
            findings += self._counted(record, probe, number.pick(machine, names))
        return self.settled(record, findings)

    def _ended(self, record: Record, raises: Any, want: Any) -> list[Finding]:
        """The findings of a record, with what is wrong with the end of the call."""
        findings = list(record.findings)
        raised = exception(record)
        if raises is not ANYTHING:
            if raised is None:
                says = f"want {raises}, got {spoken(record.result)}"
                return findings + ([self._mismatch(says, record.place)] if answered(record) else [])
            if raised.what == raises:
                findings.remove(raised)
                if not re.search(self.message, raised.message):
                    says = f"want {raises} with a message like {self.message!r}, got {raised.message!r}"
                    findings.append(self._mismatch(says, raised.blame))
        elif want is not ANYTHING and answered(record) and not same(want, record.result):
            findings.append(self._mismatch(f"want {spoken(want)}, got {spoken(record.result)}", record.place))
        return findings

    def _counted(self, record: Record, name: str, want: Any) -> Iterator[Finding]:
        probe = record.probes.get(name)
        if probe is None or want is ANYTHING or probe.count == want:
            return
        callers = ", ".join(map(str, probe.callers))
        says = f"want {want} calls, got {probe.count}{f'; called at {callers}' if callers else ''}"
        blame = probe.callers[0] if probe.callers else record.place
        yield Finding("call-mismatch", name, "call", blame, message=says)

    def _mismatch(self, says: str, blame: Line | None) -> Finding:
        return Finding("call-mismatch", self.function, "call", blame, message=says)
