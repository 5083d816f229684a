"""A project made on the spot, and a stage made by hand that answers as it is told to."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from masquerade.contracts import Configuration, ConfigurationError, load
from masquerade.stage import Check, Discovery, Finding, Line, Record, SubjectError

Load = Callable[..., Configuration]

PLACE = Line("pkg/route.py", 3, "def select():", "pkg.route")
PROBE = Finding("device-init", "torch.cuda.x", "import", Line("pkg/kern.py", 3, "x()", "pkg.kern"))


@dataclass
class FakeStage:
    """`answers` maps a check's id, or its subject, to a result or to an exception that it raises."""

    answers: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    modules: tuple[str, ...] = (
        "pkg",
        "pkg.kern",
        "pkg.ops",
        "pkg.ops.moe",
        "pkg.ops.moe.big",
        "pkg.tests",
        "pkg.tests.a",
    )
    checks: list[Check] = field(default_factory=list)

    def discover(self, name: str, path: tuple[str, ...] = ()) -> Discovery:
        found = tuple(m for m in self.modules if m == name or m.startswith(f"{name}."))
        if not found:
            raise SubjectError(f"there is no module {name}; did you mean pkg?")
        return Discovery("/root", found)

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]:
        for check in checks:
            self.checks.append(check)
            yield self.record(check)

    def record(self, check: Check) -> Record:
        findings = self.findings.get(check.id, self.findings.get(check.subject, ()))
        answer = self.answers.get(check.id, self.answers.get(check.subject))
        if isinstance(answer, Exception):
            raised = Finding("call-mismatch", type(answer).__name__, "call", PLACE, message=str(answer))
            findings, answer = (*findings, raised), None
        action = "call" if ":" in check.subject else "import"
        return Record(
            check.id, check.subject, action, check.machine.id, check.machine.platform, findings, result=answer,
            place=PLACE if action == "call" else None, levels=dict(check.levels),
        )  # fmt: skip


@pytest.fixture
def stage() -> FakeStage:
    return FakeStage()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Write a masquerade.toml and load it; the working directory is its folder."""
    monkeypatch.chdir(tmp_path)

    def make(text: str, name: str = "masquerade.toml", **how: Any) -> Configuration:
        (tmp_path / name).write_text(textwrap.dedent(text))
        return load(tmp_path, **how)

    return make


@pytest.fixture
def mistakes(project: Load) -> Callable[..., list[str]]:
    """The mistakes of a configuration, one line each."""

    def told(text: str, **how: Any) -> list[str]:
        with pytest.raises(ConfigurationError) as caught:
            project(text, **how)
        return str(caught.value).splitlines()

    return told


@pytest.fixture
def compiler(tmp_path: Path) -> Any:
    """A stage beside Triton 3.9.0 that launches two kernels; see contracts.compilers."""
    from contracts.compilers import Compiler

    stage = Compiler(site=tmp_path / "site")
    stage.release("3.9.0")
    return stage


@pytest.fixture
def gemm(project: Load, tmp_path: Path) -> Load:
    """The contract on these kernels, with its golden table, or another one, or none."""
    from contracts.compilers import TABLE, TEXT

    def make(table: str | None = TABLE, more: str = "") -> Configuration:
        if table is not None:
            (tmp_path / "gemm.3.9.0.md").write_text(table)
        return project(TEXT.format(more=more))

    return make
