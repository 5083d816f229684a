"""Declared stand-ins: modules that cannot load here are replaced in every kind of process, and are named."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage, SubjectError
from masquerade.stage.fast import WORTH
from masquerade.stage.run_as import run_as
from masquerade.stage.standins import stale

#: A package whose compiled part cannot load, and an adapter of the user's for it.
FILES = {
    "pkg/__init__.py": "",
    "pkg/_C.py": "raise ImportError('libcuda.so.1: cannot open shared object file')\n",
    "pkg/ops.py": "import pkg._C\nfrom pkg._C import gemm\nfrom . import _C as again\nassert again is pkg._C\n",
    "pkg/asks.py": "from pkg import _C\n\n\ndef answer(level):\n    return _C.supported(level)\n",
    "pkg/loads.py": "import pkg._C.below\n\n\ndef call():\n    return pkg._C.below.gemm(1)\n",
    "pkg/clean.py": "",
    "adapters/extension.py": "import sys\n\n\ndef supported(level):\n    return level >= 89\n\n\nNAME = __name__\n",
}
REPLACED = {"pkg._C": ""}
ADAPTED = {"pkg._C": "adapters.extension"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def test_without_a_declaration_the_module_is_the_real_one(one: Stage, project: Path) -> None:
    record = one.run("pkg.ops", on="cuda", path=[project])
    assert (record.verdict, record.stand_ins) == ("import-error", ())


@pytest.mark.parametrize("isolation", ["one", "fresh"])
def test_a_declared_module_is_replaced_and_told(isolation: str, project: Path, request: pytest.FixtureRequest) -> None:
    stage: Stage = request.getfixturevalue(isolation)
    record = stage.run("pkg.ops", on="cuda", path=[project], stand_ins=REPLACED)
    assert (record.verdict, record.stand_ins) == ("ok", ("pkg._C",)), record.findings
    assert record.to_json()["stand_ins"] == ["pkg._C"]
    record = stage.run("pkg.clean", on="cuda", path=[project], stand_ins=REPLACED)
    assert (record.verdict, record.stand_ins) == ("ok", ()), "what nobody executed is not told"


def test_its_names_can_be_held_and_not_called(one: Stage, project: Path) -> None:
    record = one.run("pkg.loads:call", on="cuda", path=[project], stand_ins=REPLACED)
    [finding] = record.findings
    assert (finding.kind, finding.what) == ("call-mismatch", "NoAnswerError")
    assert "pkg._C.below.gemm was called on machine h100" in finding.message
    assert record.stand_ins == ("pkg._C",)


def test_an_adapter_is_executed_in_the_place_of_the_module(one: Stage, project: Path) -> None:
    record = one.run("pkg.asks:answer", on="cuda", path=[project], stand_ins=ADAPTED, args=[90])
    assert (record.verdict, record.result, record.stand_ins) == ("ok", True, ("pkg._C",)), record.findings
    assert one.run("pkg._C:supported", on="cuda", path=[project], stand_ins=ADAPTED, args=[80]).result is False


def test_the_adapter_is_the_module(one: Stage, project: Path) -> None:
    write(project, {"looks.py": "import sys, pkg._C\n\n\ndef look():\n    return [pkg._C.NAME, *sys.modules]\n"})
    name, *loaded = one.run("looks:look", path=[project], stand_ins=ADAPTED).result
    assert name == "pkg._C"
    assert "adapters.extension" not in loaded


def test_a_search_finds_the_stand_in_and_executes_nothing(one: Stage, project: Path) -> None:
    source = "import importlib.util\n\n\ndef find():\n    return importlib.util.find_spec('pkg._C').origin\n"
    write(project, {"looks.py": source})
    record = one.run("looks:find", path=[project], stand_ins=REPLACED)
    assert record.result == "<masquerade stand-in>/pkg/_C/__init__.py"
    assert record.stand_ins == ()


def test_a_stand_in_of_a_foreign_module_is_foreign_too(one: Stage, project: Path) -> None:
    """What it stands for decides, not where the adapter lies."""
    owners = {"rocm": ("pkg._C",)}
    for stand_ins in (REPLACED, ADAPTED):
        found = {
            on: one.run("pkg.asks", on=on, path=[project], stand_ins=stand_ins, owners=owners).verdict
            for on in ("cuda", "rocm")
        }
        assert found == {"cuda": "forbidden-import", "rocm": "ok"}


def test_an_error_of_an_adapter_is_blamed_on_its_own_line(one: Stage, project: Path) -> None:
    write(project, {"adapters/extension.py": "\nraise OSError('a slip')\n"})
    [finding] = one.run("pkg.asks", path=[project], stand_ins=ADAPTED).findings
    assert (finding.kind, finding.what) == ("import-error", "OSError")
    assert any("adapters/extension.py:2" in row for row in finding.stack)


def test_trees_replace_too(project: Path) -> None:
    """Modules that share the import of a stand-in each say that it was executed."""
    many = {f"pkg/m{number}.py": "import pkg.ops\n" for number in range(WORTH)}
    write(project, many)
    machine = machines.resolve("cuda")
    checks = [
        Check(f"pkg.m{number}", machine, path=(str(project),), stand_ins=REPLACED, levels={}) for number in range(WORTH)
    ]
    with Stage(jobs=1) as stage:
        records = list(stage.scan(checks))
    assert len(records) == WORTH
    assert {(record.verdict, record.stand_ins) for record in records} == {("ok", ("pkg._C",))}


def test_contracts_of_one_machine_may_differ(one: Stage, project: Path) -> None:
    """Two checks on one machine, in servers that wear it."""
    for _ in range(3):
        assert one.run("pkg.ops", on="cuda", path=[project], stand_ins=REPLACED).verdict == "ok"
        assert one.run("pkg.ops", on="cuda", path=[project]).verdict == "import-error"


def test_a_command_and_its_children_have_it_too(project: Path) -> None:
    child = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', 'import pkg.ops'], check=True)"
    result = run_as("cuda", [sys.executable, "-c", child], path=[str(project)], stand_ins=REPLACED)
    assert (result.exit_status, result.record.stand_ins) == (0, ("pkg._C",))


def test_the_machine_here_has_no_stand_ins(one: Stage, project: Path) -> None:
    with pytest.raises(SubjectError, match="the machine here has what is installed"):
        one.run("pkg.ops", on="here", path=[project], stand_ins=REPLACED)


def test_a_stand_in_without_its_package_is_stale(one: Stage, project: Path) -> None:
    check = Check("pkg.ops", machines.resolve("cuda"), path=(str(project),))
    gone = {"pkg._C": "", "pkg._new": "", "top": "", "top.below": "", "pkg.gone._C": "", "ghost.a._C": ""}
    assert list(stale([replace(check, stand_ins=gone)], one.discover)) == [
        "stale: pkg.gone._C has a stand-in, and there is no package pkg.gone; take it out",
        "stale: ghost.a._C has a stand-in, and there is no package ghost.a; take it out",
    ]
    assert list(stale([replace(check, stand_ins={"ghost.a._C": ""}, present=("ghost",))], one.discover)) == []


def test_an_adapter_that_is_not_there_is_a_mistake(one: Stage, project: Path) -> None:
    check = Check("pkg.ops", machines.resolve("cuda"), path=(str(project),), stand_ins={"pkg._C": "adapters.gone"})
    with pytest.raises(SubjectError, match=r"^the stand-in of pkg\._C: there is no module adapters\.gone"):
        list(stale([check], one.discover))
