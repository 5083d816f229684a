"""A stage made by hand: it answers as it is told to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from click.testing import CliRunner, Result

from masquerade.cli import main
from masquerade.stage import Check, Discovery, StageError, SubjectError
from masquerade.stage.record import Finding, Line, Record
from masquerade.stage.run_as import RunResult

PROBE = Finding(
    "device-init",
    "torch.cuda.get_device_capability",
    "import",
    Line("pkg/kern.py", 3, "CAP = torch.cuda.get_device_capability()", "pkg.kern"),
)


@dataclass
class FakeStage:
    """Stands in for the ports, the stage and run_as. `findings` maps (subject, machine id) to what is found there."""

    reads: bool = False
    root: str = "/root"
    packages: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"pkg": ("pkg", "pkg.kern", "pkg.fine")})
    findings: dict[tuple[str, str], tuple[Finding, ...]] = field(default_factory=dict)
    control_findings: tuple[Finding, ...] = (PROBE,)
    stop_after: int | None = None
    stop_with: BaseException | None = None
    start_error: StageError | None = None
    exit_status: int = 0
    asked: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=lambda: {"python": "3.11.7", "torch": "2.13.0", "path": ["secret"]})

    def stage(self, **how: Any) -> FakeStage:
        self.asked |= how
        return self

    def __enter__(self) -> FakeStage:
        if self.start_error:
            raise self.start_error
        return self

    def __exit__(self, *exc: object) -> None:
        self.asked["closed"] = True

    def discover(self, name: str, path: tuple[str, ...] = ()) -> Discovery:
        if name not in self.packages:
            raise SubjectError(f"there is no module {name}; did you mean pkg?")
        return Discovery(self.root, self.packages[name], (f"looked into {name}",))

    def control(self) -> Record:
        return Record("control", "control", "import", "h100", "cuda", self.control_findings)

    scanned = False

    def run_all(self, checks: Iterable[Check]) -> Iterator[Record]:
        for index, check in enumerate(checks):
            if index == self.stop_after:
                if self.stop_with is None:
                    return
                raise self.stop_with
            self.checks.append(check)
            found = self.findings.get((check.subject, check.machine.id), ())
            yield Record(
                check.id,
                check.subject,
                "import",
                check.machine.id,
                check.machine.platform,
                found,
                levels=dict(check.levels),
            )

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]:
        self.scanned = True
        return self.run_all(checks)

    def run_as(self, **request: Any) -> RunResult:
        self.asked |= request
        machine = request["machine"]
        command = " ".join(request["command"])
        found = self.findings.get((command, machine.id), ())

        record = Record(f"run:{command}@{machine.id}", command, "run", machine.id, machine.platform, found)
        return RunResult(self.exit_status, record, processes=1)


@pytest.fixture
def stage() -> FakeStage:
    return FakeStage()


@pytest.fixture
def masquerade(stage: FakeStage) -> Callable[..., Result]:
    """Call the command line with the fake stage behind it. Standard output and standard error come apart."""

    def call(*words: str) -> Result:
        return CliRunner(env={"COLUMNS": "100"}).invoke(main, list(words), obj=stage, prog_name="masquerade")

    return call


@pytest.fixture
def probe() -> Finding:
    return PROBE
