"""A routing contract on the real stage: libraries that are there or not, an oracle that explains itself or raises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import write
from masquerade.contracts import collect, finish, golden, run
from masquerade.stage import Stage

ORACLE = """
    import dataclasses, importlib.util, torch

    @dataclasses.dataclass
    class Decision:
        backend: str
        reason: str
        refused: dict

    def select(k):
        if k == 0:
            raise ValueError("K is 0")
        if k == 1:
            return None
        refused = {}
        if torch.version.hip is None:
            refused["aiter"] = "needs ROCm"
        elif importlib.util.find_spec("aiter") is None:
            refused["aiter"] = "is not installed"
        elif k % ALIGNMENT:
            refused["aiter"] = f"K is no multiple of {ALIGNMENT}"
        else:
            return Decision("aiter", "it fits", refused)
        return Decision("triton", "it serves all", refused)
"""
CONFIGURATION = """
    machines = ["h100", "mi355x"]
    [[contracts]]
    name = "moe"
    kind = "routing"
    function = "pkg.oracle:select"
    libraries = ["+aiter", "-aiter"]
    golden = "moe.md"
    problems = { zero = {args = [0]}, small = {args = [64]}, large = {args = [4096]} }
"""
TABLE = """\
# pkg.oracle:select

| machine      | zero        | small  | large  | source |
|--------------|-------------|--------|--------|--------|
| h100+aiter   | !ValueError | triton | triton | PR 1   |
| h100-aiter   | !ValueError | triton | triton | PR 1   |
| mi355x+aiter | !ValueError | aiter  | aiter  | PR 1   |
| mi355x-aiter | !ValueError | triton | triton | PR 1   |
"""


def package(folder: Path, alignment: int) -> None:
    write(folder, {"pkg/__init__.py": "", "pkg/oracle.py": ORACLE + f"\n    ALIGNMENT = {alignment}\n"})


def checked(configuration, stage: Stage):
    cases = collect(configuration.contracts, stage.discover)
    return cases, list(run(configuration, stage, cases))


def test_a_table_is_made_holds_and_tells_why_it_broke(project, one: Stage, tmp_path: Path) -> None:
    package(tmp_path, 64)
    [contract] = project(CONFIGURATION).contracts
    cases = collect([contract], one.discover)
    records = {record.id: record for record in one.scan(case.check for case in cases)}
    _, changed = contract.rewritten("create", [(case, records[case.id]) for case in cases], "PR 1")
    assert changed and (tmp_path / "moe.md").read_text() == TABLE
    reasons = json.loads((tmp_path / "moe.reasons.json").read_text())
    assert reasons["mi355x-aiter"]["small"] == {
        "answer": "triton", "reason": "it serves all", "refused": {"aiter": "is not installed"}
    }  # fmt: skip
    assert reasons["h100+aiter"]["zero"] == {"answer": "!ValueError", "reason": "ValueError: K is 0"}

    cases, pairs = checked(project(CONFIGURATION), one)
    assert {record.verdict for _, record in pairs} == {"ok"} and finish(cases, pairs) == ()

    package(tmp_path, 128)
    configuration = project(CONFIGURATION)
    _, pairs = checked(configuration, one)
    told = list(golden.lines(configuration.contracts[0].compared(pairs)))
    assert told[2:6] == [
        "  mi355x+aiter (line 7)",
        "    small  want aiter, got triton",
        "      aiter is refused: K is no multiple of 128",
        "      triton: it serves all",
    ]
    [(case, record)] = [(case, record) for case, record in pairs if record.verdict != "ok"]
    assert case.id == "routing/moe/small@mi355x+aiter" and record.subject == "pkg.oracle:select[small]"
    assert record.findings[0].blame is not None and record.findings[0].blame.code == "def select(k):"


def test_one_answer_that_is_none_leaves_the_rest_checked(project, one: Stage, tmp_path: Path) -> None:
    package(tmp_path, 64)
    (tmp_path / "moe.md").write_text(TABLE.replace("zero", "one_"))
    configuration = project(CONFIGURATION.replace("zero = {args = [0]}", "one_ = {args = [1]}"))
    _, pairs = checked(configuration, one)
    wrong = {record.id: [f.what for f in record.findings] for _, record in pairs if record.verdict != "ok"}
    assert len(pairs) == 12 and len(wrong) == 4
    assert set(map(tuple, wrong.values())) == {("one_: no answer",)}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fork server needs Linux")
def test_from_nothing_to_a_red_explained_check_at_the_command_line(tmp_path: Path) -> None:
    write(tmp_path, {
        "mypkg/__init__.py": "",
        "mypkg/kern.py": "import torch\n\nBIG = torch.cuda.get_device_capability() >= (9, 0)\n",
        "pyproject.toml": "[[tool.masquerade.contracts]]\nname = 'lazy'\nkind = 'imports'\nmodules = ['mypkg']\n",
    })  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    env.pop("CI", None)
    done = subprocess.run(
        [sys.executable, "-m", "masquerade", "check"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "device-init  torch.cuda.get_device_capability\n  mypkg/kern.py:3\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 finding, 0 warnings in 2 modules on 4 machines: 8 checks")
