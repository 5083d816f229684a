"""Each fault that was put back is seen by the suite that should see it: the kind, the machines, the line to mend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade.machines import resolve
from masquerade.stage import Record, Stage
from masquerade.stage.client import blind
from masquerade.testing import explain

from .faults import FAULTS, PACKAGE, ROOT, Fault, FaultError, apply, copied, faults
from .runs import SOUND, Runs
from .table import table

ALL = faults()


def _platforms(fault: Fault) -> set[str]:
    """The platforms where a fault shows; that of the numerics is the CPU."""
    return {resolve(machine).platform for machine in fault.red} or {"cpu"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        chosen = [fault for fault in ALL if _platforms(fault) & set(metafunc.config.getoption("world"))]
        metafunc.parametrize("fault", chosen, ids=[fault.name for fault in chosen])


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    # A worker of pytest-xdist has all tests in its session and runs a part of them.
    items = () if hasattr(request.config, "workerinput") else request.session.items
    coming = [
        item.callspec.params["fault"] for item in items if item.path == request.path and hasattr(item, "callspec")
    ]
    with Stage(jobs=2) as stage:
        assert not blind(stage.control())
        yield Runs(stage, tmp_path_factory.mktemp("copies"), tuple(request.config.getoption("world")), coming)


def test_the_fault_is_seen(runs: Runs, fault: Fault) -> None:
    sound, broken = runs.of(fault, SOUND), runs.of(fault, fault.name)
    assert sound, f"{fault.suite} has nothing that -k {fault.select!r} chooses"
    if fault.by_contracts:
        assert not [explain(record) for record in sound if record.failed], "the suite fails without the fault"
        _contracts_see(fault, broken, runs.worlds)
    else:
        [before], [after] = (record.result for record in sound), (record.result for record in broken)
        assert before is not None and after is not None, [explain(record) for record in (*sound, *broken)]
        assert (before["failed"], before["passed"] > 0) == ([], True), "the suite fails without the fault"
        assert set(after["failed"]) == set(fault.tests)


def _contracts_see(fault: Fault, records: list[Record], worlds: frozenset[str]) -> None:
    red = [record for record in records if record.failed]
    wanted = {machine for machine in fault.red if resolve(machine).platform in worlds}
    assert {record.machine for record in red} == wanted, [explain(record) for record in red]
    for record in red:
        worst = record.worst
        assert worst is not None and worst.blame is not None, explain(record)
        seen = worst.kind, worst.what if fault.what else "", worst.blame.file
        assert seen == (fault.finding, fault.what, fault.blame), explain(record)
        assert fault.line in worst.blame.code, explain(record)


def test_each_patch_has_its_entry() -> None:
    assert {file.stem for file in FAULTS.glob("*.patch")} == {fault.name for fault in ALL}


def test_the_readme_counts_them() -> None:
    text = (ROOT / "README.md").read_text()
    section = text.partition("## Regressions seen\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines(keepends=True) if line.startswith("|")]
    assert "".join(rows) == table(ALL), f"the section should hold\n{table(ALL)}"


def test_a_patch_that_does_not_apply_says_so(tmp_path: Path) -> None:
    fault = ALL[0]
    sound = copied(tmp_path / "sound")
    assert {file.relative_to(sound) for file in sound.rglob("*.py")} == {
        Path("blockscale") / file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py")
    }
    once = copied(tmp_path / "once", fault)
    with pytest.raises(FaultError, match=rf"^{fault.name}\.patch no longer applies to .*: make the patch anew$"):
        apply(fault, once)
