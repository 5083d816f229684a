"""vLLM as it is released: what docs/downstream.md says of it, on the release that is installed here.

The package is that of this environment, or the unpacked wheel that MASQUERADE_TEST_VLLM names, with
MASQUERADE_TEST_PYTHON for an interpreter that has what vLLM imports.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from masquerade.cli import main
from masquerade.contracts import Case, Configuration, collect, golden, load
from masquerade.contracts.routing import Routing
from masquerade.stage import Record, Stage
from masquerade.stage.client import blind
from masquerade.testing import explain

from .together import asked_together
from .undone import Undo, UndoError, undone

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "downstream.md"

#: The mends of regressions that no release shows, undone in our own words.
UNDONE = {
    "1": Undo(
        "vllm/model_executor/layers/fused_moe/oracle/mxfp4.py",
        ["convert_weight_to_mxfp4_moe_kernel_format"],
        "from vllm.platforms.rocm import on_gfx1250",
    ),
    "3": Undo(
        "vllm/model_executor/layers/fused_moe/experts/rocm_aiter_moe.py",
        ["AiterMxfp4Experts._supports_quant_scheme", "AiterExperts._supports_quant_scheme"],
        "return True",
    ),
}


@cache
def root() -> Path | None:
    """The folder that vLLM lies in."""
    named = os.environ.get("MASQUERADE_TEST_VLLM")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("vllm")
    return Path(spec.origin).parents[1] if spec and spec.origin else None


@cache
def release() -> str:
    found = root()
    return next((d.version for d in metadata.distributions(path=[str(found)]) if d.name == "vllm"), "") if found else ""


installed = pytest.mark.skipif(not release(), reason="vLLM is not installed; `tox run -m downstream` does that")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(os.environ.get("MASQUERADE_TEST_PYTHON"), jobs=2) as stage:
        assert not blind(stage.control())
        yield stage


def configuration(*path: Path) -> Configuration:
    """The contracts of this release; `path` comes before the package."""
    file = HERE / f"vllm-{release()}" / "masquerade.toml"
    return load(file=file).amended(path=[str(folder) for folder in (*path, root()) if folder])


def cases(stage: Stage, name: str, *path: Path) -> tuple[Case, ...]:
    return collect([c for c in configuration(*path).contracts if c.name == name], stage.discover)


def judged(stage: Stage, name: str, *path: Path) -> list[Record]:
    found = {case.id: case for case in cases(stage, name, *path)}
    return [found[record.id].judge(record) for record in stage.run_all(case.check for case in found.values())]


def told(records: Iterable[Record]) -> str:
    """What regressions were seen, as the page has it: `kind` at `file:line` on machines."""
    seen: dict[str, list[str]] = {}
    for record in records:
        faults = [f for f in (*record.findings, *record.allowed) if f.kind in ("device-init", "forbidden-import")]
        for finding in faults[:1]:
            seen.setdefault(f"{finding.kind} at `{finding.blame}`", []).append(record.machine.partition("+v")[0])
    return "; ".join(f"{what} on {', '.join(sorted(machines))}" for what, machines in seen.items()) or "clean"


def on_the_page(seed: str) -> str:
    """The cell of a regression on this release."""
    rows = [re.split(r"\s*\|\s*", row.strip("| \n")) for row in PAGE.read_text().splitlines() if row.startswith("| ")]
    [head] = [row for row in rows if row[0] == "regression"]
    [row] = [row for row in rows if row[0].startswith(f"{seed}.")]
    return row[head.index(release())]


@installed
@pytest.mark.parametrize(("seed", "contract"), [("4", "quark"), ("2", "fp8-block-gemm"), ("1", "mxfp4-weights")])
def test_a_release_shows_what_the_page_says(stage: Stage, seed: str, contract: str) -> None:
    records = judged(stage, contract)
    assert not [explain(record) for record in records if record.failed]
    if seed not in UNDONE:
        assert told(records) == on_the_page(seed)
    else:
        assert told(records) == "clean"


@installed
def test_every_machine_has_its_platform(stage: Stage) -> None:
    assert not [explain(record) for record in judged(stage, "platform") if record.failed]


@installed
def test_the_guard_undone_is_seen_on_its_line(stage: Stage, tmp_path: Path) -> None:
    expected = on_the_page("1 undone")
    if expected == "-":
        pytest.skip(f"{release()} has no such guard")
    undone(root() or tmp_path, tmp_path, UNDONE["1"])
    assert told(judged(stage, "mxfp4-weights", tmp_path)) == expected


@pytest.fixture(scope="module")
def routes(stage: Stage) -> tuple[Routing, list[tuple[Case, Record]]]:
    contracts = [c for c in configuration().contracts if isinstance(c, Routing)]
    if not contracts:
        pytest.skip(f"there is no table of routes for {release()}")
    return contracts[0], list(asked_together(stage, collect(contracts, stage.discover)))


@installed
def test_the_routes_are_those_of_the_table(routes: tuple[Routing, list[tuple[Case, Record]]]) -> None:
    contract, pairs = routes
    assert not list(golden.lines(contract.compared(pairs)))
    assert not [explain(case.judge(record)) for case, record in pairs if case.judge(record).failed]


@installed
def test_the_gate_undone_is_seen_in_the_routes(stage: Stage, tmp_path: Path) -> None:
    expected = on_the_page("3 undone")
    if expected == "-":
        pytest.skip(f"there is no table of routes for {release()}")
    undone(root() or tmp_path, tmp_path, UNDONE["3"])
    asked = {f"routing/moe-routes/gpt-oss@{machine}+aiter" for machine in ("mi300x", "mi355x")}
    chosen = [case for case in cases(stage, "moe-routes", tmp_path) if case.id in asked]
    changed = [finding for case, record in asked_together(stage, chosen) for finding in case.judge(record).findings]
    assert [f"{finding.kind}: `{finding.what}` on mi300x+aiter" for finding in changed] == [expected]
    assert "was refused before" in changed[0].message


def test_what_stands_for_the_kernels_answers_for_the_machine(stage: Stage, tmp_path: Path) -> None:
    """As vLLM's compiled part does: FP8 from 89 on, FP4 from 100 on; no build but that for CUDA has the question."""
    (tmp_path / "asks.py").write_text(
        "import torch, vllm_extension\n\n\ndef ask(name, *levels):\n"
        "    return [getattr(torch.ops._C, name)(level) for level in levels] if hasattr(torch.ops._C, name) else None\n"
    )
    path = [tmp_path, HERE / "adapters"]
    wanted = {
        "cutlass_scaled_mm_supports_fp8": [False, True, True, True],
        "cutlass_scaled_mm_supports_block_fp8": [False, False, True, True],
        "cutlass_group_gemm_supported": [False, False, True, True],
        "cutlass_scaled_mm_supports_fp4": [False, False, False, True],
    }
    for name, answers in wanted.items():
        assert stage.run("asks:ask", on="h100", path=path, args=[name, 80, 89, 90, 100]).result == answers
    assert stage.run("asks:ask", on="mi355x", path=path, args=[name, 90]).result is None


def test_the_page_tells_how_two_releases_differ() -> None:
    tables = [str(HERE / f"vllm-{version}" / "moe-routes.md") for version in ("0.29.0", "0.33.0")]
    said = CliRunner().invoke(main, ["diff", "--markdown", *tables]).stdout
    page = PAGE.read_text()
    assert page.partition("<!-- made by masquerade diff -->\n\n")[2].partition("\n<!-- until here -->")[0] == said
    golden_rows = [[cell.strip() for cell in row.split("|")[1:-2]] for row in Path(tables[1]).read_text().splitlines()]
    for row in golden_rows[2:]:
        assert len(row) == 9 and (row[0].startswith("---") or f"| {' | '.join(row)} |" in page)


def test_a_mend_is_undone_in_a_copy_that_is_links(tmp_path: Path) -> None:
    source = 'class A:\n    def f(self):\n        """Doc."""\n        return 1\n'
    (tmp_path / "real/pkg/sub").mkdir(parents=True)
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/m.py", "pkg/n.py"):
        (tmp_path / "real" / name).write_text(source if name.endswith("m.py") else "")
    undo = Undo("pkg/sub/m.py", ["B.f", "A.f"], "raise OSError")
    assert undone(tmp_path / "real", tmp_path / "copy", undo) == 4
    assert (tmp_path / "copy/pkg/sub/m.py").read_text() == source.replace(
        "        return", "        raise OSError\n        return"
    )
    assert (tmp_path / "copy/pkg/n.py").is_symlink() and (tmp_path / "real/pkg/sub/m.py").read_text() == source
    with pytest.raises(UndoError, match=r"pkg/sub/m\.py has no function B\.f"):
        undone(tmp_path / "real", tmp_path / "other", replace(undo, functions=["B.f"]))
