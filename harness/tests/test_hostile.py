"""Subjects that hide what they do, attack the isolation, or are odd and right: verdict, time, and the next check."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import Case, cases, faults, matches, named, told

from conftest import PYTHON
from masquerade.stage import Stage

FOLLOW_UP = (named("hostile", "o01"), named("hostile", "h05"))

#: Seconds that a check may take beyond its time limit.
LATE = 2.0


@pytest.fixture(scope="module")
def lanes() -> Iterator[tuple[Stage, Stage]]:
    """Two stages with one server each, so that a follow-up meets the server that the subject before it met."""
    with Stage(PYTHON) as one, Stage(PYTHON) as other:
        yield one, other


def judged(stage: Stage, case: Case, world: str) -> list[str]:
    """What is wrong with a case in one world, and with the two checks after it."""
    started = time.monotonic()
    check = case.check(world)
    (record,) = stage.run_all([check])
    wrong = faults(case, world, record, stage.facts["torch"])
    if time.monotonic() - started > check.timeout + LATE:
        wrong.append(f"took {time.monotonic() - started:.1f} s with a limit of {check.timeout} s")
    if record.verdict == "timeout" and record.seconds < check.timeout:
        wrong.append(f"ended after {record.seconds:.1f} s, before its limit of {check.timeout} s")
    if wrong:
        wrong.append(told(record))
    for next_case in FOLLOW_UP if case.expect.get("after_ok") else ():
        (after,) = stage.run_all([next_case.check(world)])
        if not matches(after, next_case.fair(world)[0]):
            wrong.append(f"the next check is disturbed: {told(after)}")
    return wrong


@pytest.mark.parametrize("case", cases("hostile", "hio"), ids=lambda case: case.name)
def test_hostile(lanes: tuple[Stage, Stage], case: Case) -> None:
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(
            lambda lane, worlds: [row for world in worlds for row in judged(lane, case, world)],
            lanes,
            (("cuda", "xpu"), ("rocm", "cpu")),
        )
        wrong = [row for half in halves for row in half]
    assert not wrong, "\n".join(wrong)
