"""Runs contracts: collects their cases, has the stage check them, and judges what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from masquerade.contracts.configuration import Configuration
from masquerade.contracts.contract import Broken, Case, Contract, Discover
from masquerade.contracts.errors import ConfigurationError, Problem
from masquerade.contracts.owners import misnamed
from masquerade.stage.check import Check, Discovery
from masquerade.stage.record import Record


class Stage(Protocol):
    """What a run needs of a stage."""

    def discover(self, name: str, path: Sequence[str] = ()) -> Discovery: ...

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]: ...


def collect(contracts: Iterable[Contract], discover: Discover) -> tuple[Case, ...]:
    """The cases of all contracts. Raises ConfigurationError with what is wrong with each of them."""
    cases: list[Case] = []
    problems: list[Problem] = []
    chosen = tuple(contracts)
    for contract in chosen:
        try:
            cases += contract.cases(discover)
        except ConfigurationError as error:
            problems += error.problems
    problems += misnamed(chosen, discover)
    if problems:
        raise ConfigurationError(problems)
    return tuple(cases)


def run(
    configuration: Configuration, stage: Stage, cases: Iterable[Case] | None = None
) -> Iterator[tuple[Case, Record]]:
    """Check the cases, all without `cases`, and judge each record; they come as they are ready.

    Raises ConfigurationError, and masquerade.stage.StageError when the stage itself fails.
    """
    for case, record in unjudged(configuration, stage, cases):
        yield case, case.judge(record)


def unjudged(
    configuration: Configuration, stage: Stage, cases: Iterable[Case] | None = None
) -> Iterator[tuple[Case, Record]]:
    """As run, with the records as the stage gives them."""
    chosen = collect(configuration.contracts, stage.discover) if cases is None else tuple(cases)
    by_id = {case.id: case for case in chosen}
    for record in stage.scan(case.check for case in chosen):
        yield by_id[record.id], record


def finish(cases: Iterable[Case], judged: Iterable[tuple[Case, Record]]) -> tuple[Broken, ...]:
    """What the contracts show as a whole: of those whose `cases`, which are all that there are, have all been run."""
    expected: dict[str, set[str]] = {}
    owners: dict[str, Contract] = {}
    for case in cases:
        expected.setdefault(case.contract, set()).add(case.id)
        owners[case.contract] = case.owner
    records: dict[str, dict[str, Record]] = {}
    for case, record in judged:
        records.setdefault(case.contract, {})[case.id] = record
        owners[case.contract] = case.owner
    broken: list[Broken] = []
    for name, ids in expected.items():
        if ids <= records.get(name, {}).keys():
            broken += owners[name].finish(records[name].values())
    return tuple(broken)
