"""The cases of class d as routing contracts: each wrong row is named with its want and got, and mended code passes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.contracts import Case, Contract, collect, finish, load, run
from masquerade.contracts.golden import cells
from masquerade.contracts.routing import Asked, Routing
from masquerade.stage import Record, Stage

HERE = Path(__file__).parent
MENDED = HERE / "mended"

CONFIGURATION = load(HERE)
ROUTING = [contract for contract in CONFIGURATION.contracts if isinstance(contract, Routing)]

Pairs = list[tuple[Case, Record]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(jobs=2) as stage:
        yield stage


@pytest.fixture
def worlds(request: pytest.FixtureRequest) -> set[str]:
    return set(request.config.getoption("world"))


def checked(stage: Stage, worlds: set[str], *contracts: Contract) -> Pairs:
    cases = [case for case in collect(contracts, stage.discover) if case.check.machine.platform in worlds]
    assert cases
    return list(run(CONFIGURATION, stage, cases))


def named(name: str) -> Contract:
    return next(contract for contract in CONFIGURATION.contracts if contract.name == name)


def mended(contract: Contract) -> Contract:
    """The contract on mended code. The golden table is the same."""
    folder = MENDED / Path(contract.path[0]).name
    assert folder.is_dir()
    return dataclasses.replace(contract, path=(str(folder), *contract.path))


def row(contract: Routing, asked: Asked, platform: str) -> dict[str, Any]:
    """The row of the case's expect.json that a problem stands for."""
    route = json.loads((Path(contract.path[0]) / "expect.json").read_text())["route"]
    rows = next(table for table in (route, *route.get("more", ())) if table["target"] == contract.function)["rows"]
    env = {**asked.env, **asked.env_after_import}
    [found] = [
        row
        for row in rows
        if tuple(row["args"]) == asked.args and row.get("env", {}) == env and row.get("platform", platform) == platform
    ]
    return found


def expected(contract: Routing, key: str, worlds: set[str]) -> dict[tuple[str, str], str]:
    """(machine, problem) -> the cell that expect.json says is `want`, or `got` where that differs."""
    write = cells.value if contract.answers == "values" else cells.name
    return {
        (machine.id, problem): write(found.get(key, found["want"]))
        for machine in contract.machines
        if machine.platform in worlds
        for problem, asked in contract.problems.items()
        for found in [row(contract, asked, machine.platform)]
    }


@pytest.mark.parametrize("contract", ROUTING, ids=lambda contract: contract.name)
def test_the_golden_table_is_what_the_case_wants(contract: Routing, worlds: set[str]) -> None:
    assert contract.table is not None
    held = {place: contract.table.cell(*place) for place in expected(contract, "want", worlds)}
    assert held == expected(contract, "want", worlds)


@pytest.mark.parametrize("contract", ROUTING, ids=lambda contract: contract.name)
def test_every_wrong_row_is_named_with_want_and_got_and_no_other(
    stage: Stage, worlds: set[str], contract: Routing
) -> None:
    want, got = expected(contract, "want", worlds), expected(contract, "got", worlds)
    wrong = {place for place in want if want[place] != got[place]}
    pairs = checked(stage, worlds, contract)
    assert {(c.check.machine.id, c.problem) for c, record in pairs if record.verdict == "route-mismatch"} == wrong
    for case, record in pairs:
        place = case.check.machine.id, case.problem
        if place not in wrong:
            assert record.verdict == "ok", record
            continue
        [finding] = record.findings
        assert finding.what == f"{case.problem}: {want[place]} -> {got[place]}"
        assert f"want {want[place]}, got {got[place]} (" in finding.message
        assert finding.blame is not None and finding.blame.code.startswith("def ")


@pytest.mark.parametrize("contract", [c for c in ROUTING if c.name[0] == "d"], ids=lambda contract: contract.name)
def test_mended_code_passes_with_the_same_table(stage: Stage, worlds: set[str], contract: Routing) -> None:
    pairs = checked(stage, worlds, mended(contract))
    assert {record.verdict for _, record in pairs} == {"ok"}, [r.findings for _, r in pairs]
    assert finish([case for case, _ in pairs], pairs) == ()


@pytest.mark.parametrize("name, verdict", [("d08-probe-for-aiter", "ok"), ("d08-no-probe-for-triton", "call-mismatch")])
def test_a_hoisted_probe_is_counted(stage: Stage, worlds: set[str], name: str, verdict: str) -> None:
    for _, record in checked(stage, worlds, named(name)):
        assert record.verdict == verdict
        for finding in record.findings:
            assert (finding.what, str(finding.blame)) == ("badpkg.probe:on_gfx1250", "badpkg/fmt.py:6")
            assert finding.message.startswith("want 0 calls, got 1")
    assert {record.verdict for _, record in checked(stage, worlds, mended(named(name)))} == {"ok"}


def test_an_entry_for_what_was_mended_is_stale(stage: Stage) -> None:
    contract = mended(named("e03_patch_lost_by_spawn"))
    pairs = checked(stage, {"cuda", "rocm", "xpu", "cpu"}, contract)
    assert {record.verdict for _, record in pairs} == {"ok"}
    [broken] = finish([case for case, _ in pairs], pairs)
    assert broken.message.startswith("stale: nothing is left of the allowed device-init in isopkg.config on rocm")
