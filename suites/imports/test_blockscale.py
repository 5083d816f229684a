"""Every module of blockscale imports clean on every machine of the zoo, the faulty ones too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from masquerade.machines import names, resolve
from masquerade.stage import Check, Stage
from masquerade.stage.client import blind

#: What most modules import: once for a machine, if that leaves nothing but modules behind.
FIRST = (
    "triton",
    "triton.experimental.gluon",
    "blockscale.formats.mx",
    "blockscale.kernels.moe_router",
    "blockscale.kernels.triton.scales",
    "blockscale.platforms.current",
    "blockscale.platforms.libraries",
)

MACHINES = [resolve(name) for name in names() if name != "here"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" in metafunc.fixturenames:
        worlds = metafunc.config.getoption("world")
        chosen = [machine for machine in MACHINES if machine.platform in worlds]
        metafunc.parametrize("machine", chosen, ids=[machine.id for machine in chosen])


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        assert not blind(stage.control())
        yield stage


@pytest.fixture(scope="module")
def modules(stage: Stage) -> tuple[str, ...]:
    return stage.discover("blockscale").modules


def test_importing_touches_nothing(stage: Stage, modules: tuple[str, ...], machine) -> None:
    records = list(stage.run_all(Check(module, machine, first=FIRST) for module in modules))
    assert len(records) == len(modules) > 30
    assert [(record.subject, finding) for record in records for finding in record.findings] == []
