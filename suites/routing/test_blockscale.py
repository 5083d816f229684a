"""blockscale's oracles, on every machine of the zoo, against the golden tables in fixtures/golden/blockscale."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from masquerade.contracts import Case, collect, finish, golden, load, run
from masquerade.contracts.routing import Routing
from masquerade.machines import names
from masquerade.stage import Record, Stage
from masquerade.stage.client import blind

HERE = Path(__file__).parent
CONFIGURATION = load(HERE / "blockscale")
CONTRACTS = [contract for contract in CONFIGURATION.contracts if isinstance(contract, Routing)]
ZOO = set(names()) - {"here"}
#: Case id -> what was asked, and the record of the answer.
Asked = dict[str, tuple[Case, Record]]

#: Answers that one of them, asked for by itself, confirms.
CHUNK = 100

each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(jobs=2) as stage:
        assert not blind(stage.control())
        yield stage


@pytest.fixture(scope="module")
def records(stage: Stage, request: pytest.FixtureRequest) -> Asked:
    """What all contracts ask: from one process for each machine, for most of a check's time goes into its fork."""
    worlds = request.config.getoption("world")
    cases = collect(CONTRACTS, stage.discover)
    return dict(asked_together(stage, [c for c in cases if c.check.machine.platform in worlds]))


def asked_together(stage: Stage, cases: Iterable[Case]) -> Iterator[tuple[str, tuple[Case, Record]]]:
    """The records of cases, as those of calls that a process each would have made, by the cases' ids."""
    by_machine: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_machine[case.check.machine.id].append(case)
    checks = []
    for machine, found in by_machine.items():
        problems = {
            case.id: {
                "function": case.check.subject,
                "factory": case.check.factory,
                "args": list(case.check.args),
                "kwargs": dict(case.check.kwargs),
                "env": {**case.check.env, **case.check.env_after_import},
            }
            for case in found
        }
        all_at_once = {"factory": "", "kwargs": {}, "env": {}, "env_after_import": {}, "oracle": False}
        checks.append(
            replace(found[0].check, subject="blockscale_problems:ask", label=machine, args=(problems,), **all_at_once)
        )
    for record in stage.run_all(checks):
        assert record.verdict == "ok", (record.id, record.findings)
        for case in by_machine[record.machine]:
            yield case.id, (case, replace(record, id=case.id, result=record.result[case.id], place=None))


def named(name: str) -> Routing:
    return next(contract for contract in CONTRACTS if contract.name == name)


@each_contract
def test_the_oracle_answers_as_its_golden_table_says(records: Asked, contract: Routing) -> None:
    pairs = [pair for pair in records.values() if pair[0].contract == contract.name]
    assert pairs
    told = list(golden.lines(contract.compared(pairs)))
    assert not told, "\n".join(told)
    judged = [(case, case.judge(record)) for case, record in pairs]
    assert {record.verdict for _, record in judged} == {"ok"}
    assert finish([case for case, _ in pairs], judged) == ()


def test_a_process_for_each_problem_says_the_same(stage: Stage, records: Asked) -> None:
    ids = sorted(records)
    chosen = [records[id][0] for id in random.Random(len(ids)).sample(ids, len(ids) // CHUNK)]
    assert chosen
    for case, record in run(CONFIGURATION, stage, chosen):
        contract, together = named(case.contract), case.judge(records[case.id][1])
        assert record.verdict == together.verdict, case.id
        assert contract.answers_of([(case, record)]) == contract.answers_of([(case, together)])


@each_contract
def test_no_machine_of_the_zoo_is_missing_from_the_table(contract: Routing) -> None:
    assert contract.table is not None
    rows = {row.machine for row in contract.table.rows}
    assert rows >= ZOO, f"`masquerade check --golden create` adds {sorted(ZOO - rows)}"
    assert not [row.machine for row in contract.table.rows for cell in row.cells.values() if cell == "?"]


@each_contract
def test_each_row_says_where_it_comes_from(contract: Routing) -> None:
    assert contract.table is not None
    unknown = [row.machine for row in contract.table.rows if row.source.split(";")[0] == "unknown"]
    assert not unknown, "nobody has said yet why these rows are right"


def test_a_rule_that_is_dropped_is_told_with_what_it_had_refused(stage: Stage, tmp_path: Path) -> None:
    """The 256 alignment of AITER's CK kernel, whose loss was a regression of vLLM (vllm-project/vllm#37787)."""
    package = Path(CONTRACTS[0].path[0]) / "blockscale"
    shutil.copytree(package, tmp_path / "blockscale", ignore=shutil.ignore_patterns("__pycache__"))
    rule = tmp_path / "blockscale/oracle/mxfp4_moe/aiter_mxfp4_bf16.py"
    text = rule.read_text()
    assert text.count("        ALIGNED_TO_256,\n") == 1
    rule.write_text(text.replace("        ALIGNED_TO_256,\n", ""))

    moe = named("moe")
    machines = tuple(m for m in moe.machines if m.id in ("mi355x+aiter", "mi350x+aiter", "mi355x", "mi300x+aiter"))
    problems = {name: moe.problems[name] for name in ("gpt-oss", "gpt-oss-tp8", "aligned")}
    changed = replace(moe, machines=machines, problems=problems, path=(str(tmp_path), *moe.path))
    pairs = list(run(CONFIGURATION, stage, collect([changed], stage.discover)))
    lines = list(golden.lines(changed.compared(pairs)))
    assert lines[0].startswith("moe: 4 of 12 answers differ from ")
    assert lines[1].startswith("  asked: blockscale.oracle.mxfp4_moe:select_mxfp4_moe_backend in blockscale/oracle/")
    assert lines[2].startswith("  mi350x+aiter, mi355x+aiter (lines ")
    was = "      AITER_MXFP4_BF16 was refused before: It needs sizes in multiples of 256, and they are 2880 (hidden)"
    assert lines[3:-1] == [
        "    gpt-oss      want TRITON, got AITER_MXFP4_BF16",
        f"{was} and 2880 (intermediate).",
        "    gpt-oss-tp8  want TRITON, got AITER_MXFP4_BF16",
        f"{was} and 360 (intermediate).",
    ]
    assert lines[-1] == "  where the new answers are right, `masquerade check --golden fix` writes them"
