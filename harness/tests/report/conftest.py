"""Records made by hand: what a stage would have sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from masquerade.report.results import MachineColumn, Results
from masquerade.stage.record import Finding, Level, Line, Record, default_levels

FOUR = (
    MachineColumn("h100", "cuda", "sm_90"),
    MachineColumn("mi300x", "rocm", "gfx942"),
    MachineColumn("b580", "xpu", "bmg"),
    MachineColumn("epyc-9655", "cpu", "x86_64"),
)


@pytest.fixture
def device_init() -> Finding:
    """The transitive case: an argument parser imports its way to a probe."""
    return Finding(
        "device-init",
        "torch.cuda.get_device_capability",
        "import",
        Line("badpkg/_arch.py", 5, "return torch.cuda.get_device_capability() >= (9, 0)", "badpkg._arch"),
        chain=(
            Line("badpkg/cli.py", 1, "from badpkg import registry", "badpkg.cli"),
            Line("badpkg/registry.py", 2, "from badpkg import _arch", "badpkg.registry"),
            Line("badpkg/_arch.py", 5, "return torch.cuda.get_device_capability() >= (9, 0)", "badpkg._arch"),
        ),
    )


@pytest.fixture
def import_error() -> Finding:
    return Finding("import-error", "ModuleNotFoundError", "import", Line("badpkg/old.py", 1, "import pkg_resources"),
                   message="No module named 'pkg_resources'")  # fmt: skip


@pytest.fixture
def check() -> Callable[..., Record]:
    def make(subject: str, machine: str, *findings: Finding, output: str = "", **changes: object) -> Record:
        platform = next((column.platform for column in FOUR if column.id == machine), "cuda")
        fields = {"levels": default_levels(), "seconds": 0.01, **changes}
        name = f"import:{subject}@{machine}"
        return Record(name, subject, "import", machine, platform, findings, output=output, **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def results() -> Callable[..., Results]:
    def make(records: Sequence[Record], levels: dict[str, Level] | None = None, **changes: object) -> Results:
        fields = {"machines": FOUR, "planned": len(records), "seconds": 1.25, **changes}
        made = tuple(replace(record, levels=levels) for record in records) if levels else tuple(records)
        return Results(records=made, levels=levels or default_levels(), **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
def machines() -> tuple[MachineColumn, ...]:
    return FOUR
