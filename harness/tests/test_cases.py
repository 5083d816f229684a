"""Every handed case in the four worlds: its verdict, a blame line of its chain, its golden rows."""

from __future__ import annotations

import pytest
from cases import WORLDS, Case, Row, cases, faults, told

from masquerade.stage import Stage

ROWS = [(case, row) for case in cases("cases", "de") for row in case.rows()]


@pytest.mark.parametrize("case", cases("cases", "abcse"), ids=lambda case: case.name)
def test_case(stage: Stage, case: Case) -> None:
    checks = {check.id: world for world in WORLDS for check in [case.check(world)]}
    records = list(stage.run_all([case.check(world) for world in WORLDS]))
    assert len(records) == 4
    wrong = [told(r) + "\n" + "\n".join(found) for r in records if (found := faults(case, checks[r.id], r))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", cases("cases", "df"), ids=lambda case: case.name)
def test_routing_and_numerics_cases_import_clean(stage: Stage, case: Case) -> None:
    for record in stage.run_all([case.check(world) for world in WORLDS]):
        assert record.findings == () and record.verdict == "ok", told(record)


@pytest.mark.parametrize("case, row", ROWS, ids=[f"{case.name}-{n}" for n, (case, _) in enumerate(ROWS)])
def test_golden_row_is_answered_as_the_case_really_answers(stage: Stage, case: Case, row: Row) -> None:
    checks = [case.check(world, row.target, args=row.args, env=row.env) for world in row.worlds]
    for record in stage.run_all(checks):
        assert record.result == row.got, f"{row.target}{row.args}: want {row.want}, got {record.result}; {told(record)}"


def test_blame_of_clean_worlds_is_nobodys(stage: Stage) -> None:
    """Guard of the suite itself: faults() must find something wrong with a record of another case."""
    clean, bad = cases("cases", "c")[0], cases("cases", "a")[0]
    record = next(iter(stage.run_all([bad.check("cuda")])))
    assert faults(bad, "cuda", record) == [] and len(faults(clean, "cuda", record)) == 2
