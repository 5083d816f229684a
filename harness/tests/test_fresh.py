"""A fresh interpreter for each check gives the verdict and the blame that the fork server gives."""

from __future__ import annotations

import pytest
from cases import WORLDS, Case, cases, faults, named, told

from masquerade.stage import Record, Stage

#: One of each manner: names kept or rebuilt, threads, finalizers, a vendor under another name, an ended process, a
#: spoilt wire, replaced tools, and what is odd and right.
HOSTILE = [
    "h01", "h05", "h09", "h13", "h17", "h25", "h35", "h53", "h65",
    "i01", "i09", "i19", "i21", "i59", "i69", "i83",
    "o01", "o09", "o13", "o23", "o33",
]  # fmt: skip


def two_worlds(case: Case) -> tuple[str, ...]:
    """Two worlds in which the case fares differently, if there are any."""
    first = case.fair("rocm")
    return ("rocm", next((world for world in ("cpu", "cuda", "xpu") if case.fair(world) != first), "xpu"))


SMALL = [(case, two_worlds(case)) for case in cases("cases", "abse")]
SMALL += [(named("hostile", name), (WORLDS[place % 4],)) for place, name in enumerate(HOSTILE)]
WHOLE = [(case, WORLDS) for case in [*cases("cases", "abcdefs"), *cases("hostile", "hio")]]


def findings(record: Record) -> set[tuple[str, str, str]]:
    """What is compared: all but the seconds of a time limit."""
    return {(f.kind, "" if f.kind == "timeout" else f.what, str(f.blame)) for f in record.findings}


def differences(stage: Stage, fresh: Stage, case: Case, worlds: tuple[str, ...], start: float) -> list[str]:
    """What differs between the two stages. `start`: seconds for the interpreter's start, on top of the case's limit."""
    timeout = case.expect.get("timeout_s", 30)
    forked = {record.id: record for record in stage.run_all([case.check(world) for world in worlds])}
    wrong = []
    by_id = {case.check(world).id: world for world in worlds}
    for record in fresh.run_all([case.check(world, timeout=timeout + start) for world in worlds]):
        other = forked[record.id]
        world = by_id[record.id]
        # Where several verdicts are fair a race may decide: then each stage need only give one of them.
        if len(case.fair(world)) == 1 and (record.verdict, findings(record)) != (other.verdict, findings(other)):
            wrong.append(f"forked: {told(other)}\nfresh: {told(record)}")
        wrong += [f"{fault}: {told(record)}" for fault in faults(case, world, record, stage.facts["torch"])]
    return wrong


@pytest.mark.parametrize("case, worlds", SMALL, ids=lambda value: getattr(value, "name", None))
def test_fresh_is_as_forked(stage: Stage, fresh: Stage, case: Case, worlds: tuple[str, ...]) -> None:
    wrong = differences(stage, fresh, case, worlds, start=20)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("case, worlds", WHOLE, ids=lambda value: getattr(value, "name", None))
def test_the_whole_set_is_fresh_as_forked(stage: Stage, fresh: Stage, case: Case, worlds: tuple[str, ...]) -> None:
    wrong = differences(stage, fresh, case, worlds, start=20)
    assert not wrong, "\n".join(wrong)
