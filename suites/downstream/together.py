"""All routes of a machine from one process: importing vLLM takes most of a check's time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from masquerade.contracts import Case
from masquerade.stage import Record, Stage


def asked_together(stage: Stage, cases: Iterable[Case]) -> Iterator[tuple[Case, Record]]:
    """The records of routing cases, as those of calls that a process each would have made."""
    by_machine: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_machine[case.check.machine.id].append(case)
    checks = []
    for machine, found in by_machine.items():
        problems = {case.id: {"args": list(case.check.args), "kwargs": dict(case.check.kwargs)} for case in found}
        subject = case_function(found[0])
        checks.append(
            replace(found[0].check, subject=subject, label=machine, args=(problems,), kwargs={}, oracle=False)
        )
    for record in stage.run_all(checks):
        assert not record.failed, (record.id, record.findings)
        for case in by_machine[record.machine]:
            yield case, replace(record, id=case.id, result=record.result[case.id], place=None)


def case_function(case: Case) -> str:
    """The function that is asked many problems, beside the one that is asked one."""
    return f"{case.check.subject}_all"
