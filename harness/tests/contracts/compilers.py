"""A stage made by hand that compiles what it is told to, a contract on its kernels, and the golden table of these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contracts.conftest import FakeStage

from masquerade.contracts import collect, finish, run
from masquerade.contracts.runner import unjudged
from masquerade.stage import Check, Discovery, Record, SubjectError

TEXT = """
    [[contracts]]
    name = "gemm"
    kind = "codegen"
    function = "pkg.gemm:launch"
    golden = "gemm.{{triton}}.md"
    machines = ["h200", "mi355x"]
    kernels = ["_gemm*"]
    {more}
    [contracts.configurations]
    small = {{ args = [16], env = {{ A = "1" }} }}
    large = {{ args = [1024], factory = "pkg.other:make" }}
"""
HEAD = """\
# pkg.gemm:launch

Triton 3.9.0. Shared memory in bytes a block; registers, and spilled words of 4 bytes, a thread.

"""
TABLE = (
    HEAD
    + """\
| configuration | kernel | machine | arch   | instructions           | shared | registers | spills | source |
|---------------|--------|---------|--------|------------------------|--------|-----------|--------|--------|
| small         | _gemm  | h200    | sm_90  | wgmma e4m3             | 32768  | 100       | 0      | PR 1   |
| small         | _gemm  | mi355x  | gfx950 | mfma block-scaled e2m1 | 32768  | 100       | 0      | PR 1   |
| small         | _sum   | h200    | sm_90  | none                   | 0      | 20        | 0      | PR 1   |
| small         | _sum   | mi355x  | gfx950 | none                   | 0      | 20        | 0      | PR 1   |
| large         | _gemm  | h200    | sm_90  | wgmma e4m3             | 32768  | 100       | 0      | PR 1   |
| large         | _gemm  | mi355x  | gfx950 | mfma block-scaled e2m1 | 32768  | 100       | 0      | PR 1   |
| large         | _sum   | h200    | sm_90  | none                   | 0      | 20        | 0      | PR 1   |
| large         | _sum   | mi355x  | gfx950 | none                   | 0      | 20        | 0      | PR 1   |
"""
)
NATIVE = {"h200": "wgmma e4m3", "mi355x": "mfma block-scaled e2m1"}


def launch(kernel: str = "_gemm", *families: str, **facts: Any) -> dict[str, Any]:
    place = {"file": "pkg/gemm.py", "line": 7}
    numbers = {"shared": 32768, "shared_limit": 65536, "registers": 100, "spills": 0}
    return {"kernel": kernel, "place": place, "line": None, "instructions": dict.fromkeys(families, 4),
            "pruned": "", **numbers, **facts}  # fmt: skip


def plain(machine: str) -> list[dict[str, Any]]:
    return [launch("_gemm", NATIVE[machine]), launch("_sum", shared=0, registers=20)]


@dataclass
class Compiler(FakeStage):
    """Launches what it is told to, by a check's id; beside a Triton of some release, or none."""

    launches: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    site: Path = Path("/nowhere")

    def release(self, version: str) -> None:
        (self.site / "triton").mkdir(parents=True, exist_ok=True)
        (self.site / "triton" / "__init__.py").write_text(f'"""Triton."""\n__version__ = "{version}+git1"\n')

    def discover(self, name: str, path: tuple[str, ...] = ()) -> Discovery:
        if name == "triton" and not (self.site / "triton").exists():
            raise SubjectError("there is no module triton")
        return Discovery(str(self.site), ("triton",)) if name == "triton" else super().discover(name, path)

    def record(self, check: Check) -> Record:
        launched = self.launches.get(check.id, plain(check.machine.id))
        return replace(super().record(check), launches=tuple(launched))


def told(configuration, stage) -> dict[str, list[tuple[str, str]]]:
    """The findings of each case, by what and message; only cases that have some."""
    records = {case.id.removeprefix("codegen/gemm/"): record for case, record in run(configuration, stage)}
    return {id: [(f.what, f.message) for f in record.findings] for id, record in records.items() if record.findings}


def broken(configuration, stage) -> list[str]:
    cases = collect(configuration.contracts, stage.discover)
    return [str(each) for each in finish(cases, run(configuration, stage, cases))]


def acted(configuration, stage, act: str, source: str = "PR 2", only: str = "") -> tuple[str, bool]:
    cases = [case for case in collect(configuration.contracts, stage.discover) if only in case.id]
    contract, changed = cases[0].owner.rewritten(act, list(unjudged(configuration, stage, cases)), source)
    file = Path(contract.golden_file)
    return file.read_text() if file.exists() else "", changed
