"""The runner: mistakes of all contracts at once, records in any order, and many cases fast and without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from contracts.conftest import FakeStage

from conftest import write
from masquerade.contracts import ConfigurationError, collect, run
from masquerade.stage import Check, Record

TWO = """
    machines = ["cpu"]
    [[contracts]]
    name = "a"
    kind = "imports"
    modules = ["pkg.kern"]
    [[contracts]]
    name = "b"
    kind = "imports"
    modules = ["pkg.kern"]
    env = {A = "1"}
"""


class Backwards(FakeStage):
    def scan(self, checks: Iterable[Check]) -> Iterator[Record]:
        return super().scan(reversed(list(checks)))


def test_records_find_their_cases_in_any_order(project) -> None:
    pairs = list(run(project(TWO), Backwards()))
    assert [(case.id, record.id) for case, record in pairs] == [
        ("imports/b/pkg.kern@spr", "imports/b/pkg.kern@spr"), ("imports/a/pkg.kern@spr", "imports/a/pkg.kern@spr")
    ]  # fmt: skip


def test_only_the_given_cases_run(project, stage) -> None:
    configuration = project(TWO)
    cases = collect(configuration.contracts, stage.discover)
    assert [case.id for case, _ in run(configuration, stage, cases[:1])] == ["imports/a/pkg.kern@spr"]


def test_mistakes_that_only_looking_shows_are_told_of_all_contracts(project, stage) -> None:
    with pytest.raises(ConfigurationError) as caught:
        collect(project(TWO.replace("pkg.kern", "other")).contracts, stage.discover)
    assert [problem.line for problem in caught.value.problems] == [6, 10]


def test_five_thousand_cases_are_collected_without_torch(tmp_path: Path) -> None:
    write(tmp_path, {f"big/p{n // 50}/m{n}.py": "raise AssertionError" for n in range(1250)})
    write(tmp_path, {"big/__init__.py": "raise AssertionError"})
    write(tmp_path, {"masquerade.toml": '[[contracts]]\nname = "all"\nkind = "imports"\nmodules = ["big.*.*"]\n'})
    code = """
        import sys
        from masquerade.contracts import collect, load
        from masquerade.stage import Stage
        with Stage(torch=False) as stage:
            cases = collect(load().contracts, stage.discover)
        print(len(cases), "torch" in sys.modules)
    """
    (tmp_path / "collect.py").write_text("\n".join(line[8:] for line in code.splitlines()))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "collect.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["5000", "False"], done.stderr
