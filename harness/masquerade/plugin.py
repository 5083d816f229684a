"""The pytest plugin: options, marks and fixtures. What stands behind them is loaded when a run first needs it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from masquerade.machines import Machine
    from masquerade.stage import Stage

#: The marks of real hardware, and an example of each condition.
HARDWARE = {"cuda": '"sm_90+"', "rocm": '"gfx950", "gfx942"', "xpu": '"bmg"', "cpu": '"amx_tile"'}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("masquerade")
    group.addoption(
        "--require-hardware",
        action="append",
        default=[],
        metavar="PLATFORM[:ARCH]",
        help="Tests marked for this hardware fail where they would be skipped: cuda, rocm, xpu, cpu, or cuda:sm_90. "
        "May be given more than once.",
    )
    group.addoption(
        "--contracts",
        action="store_true",
        help="Check the contracts of the root folder's [tool.masquerade] or masquerade.toml too.",
    )
    parser.addini(
        "masquerade_contracts",
        "Check the contracts of the configuration in every run that names no files.",
        type="bool",
        default=False,
    )
    parser.addini(
        "masquerade_packages",
        "The packages under test: a test in disguise is an error where the pytest process has imported one.",
        type="args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    # pytest-forked would run a marked test without its disguise: what registers last is asked first.
    config.pluginmanager.register(Disguised(), "masquerade-disguised")
    config.addinivalue_line(
        "markers",
        "machine(*names, owners=..., env=..., present=..., absent=..., packages=..., timeout=...): runs the test once "
        "for each machine, in a process that answers as that machine would (see `masquerade machines`)",
    )
    if config.getoption("contracts") or config.getini("masquerade_contracts"):
        from masquerade.pytest_plugin import contract_items

        contract_items.add_configuration(config)
    config.addinivalue_line(
        "markers",
        "hardware: the tests whose marks need hardware that not every host has; nobody sets it, -m chooses by it",
    )
    for platform, example in HARDWARE.items():
        config.addinivalue_line(
            "markers",
            f"{platform}(*archs): needs real {platform} hardware, of one of these archs if any are named "
            f"(@pytest.mark.{platform}({example})); skipped elsewhere",
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (
        any(item.get_closest_marker("machine") for item in items)
        or "masquerade.pytest_plugin.machine_mark" in sys.modules
    ):
        from masquerade.pytest_plugin import machine_mark

        machine_mark.check(config, items)
    required = config.getoption("require_hardware")
    if required or any(mark.name in HARDWARE for item in items for mark in item.iter_markers()):
        from masquerade.pytest_plugin import hardware_marks

        hardware_marks.apply(items, required)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("require_hardware"):
        from masquerade.pytest_plugin import hardware_marks

        hardware_marks.something_selected(session.items, session.config.getoption("require_hardware"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A configuration is collected where it is named itself, as an argument or by --contracts."""
    if file_path.name not in ("masquerade.toml", "pyproject.toml"):
        return None
    if "masquerade.pytest_plugin.contract_items" not in sys.modules and not parent.session.isinitpath(file_path):
        return None
    from masquerade.pytest_plugin import contract_items

    return contract_items.collector(parent, file_path)


class Disguised:
    """Runs the tests that are marked `machine`."""

    def __init__(self) -> None:
        self.process = os.getpid()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("machine") is None:
            return None
        from masquerade.pytest_plugin import protocol

        protocol.run(item, nextitem)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.get_closest_marker("machine") is not None and os.getpid() == self.process:
            pytest.fail(
                "another plugin runs this test itself, without the disguise that it is marked for", pytrace=False
            )

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """pytest-timeout's limit is that of the child; a limit on the test function alone is set in the child."""
        if item.get_closest_marker("machine") is None or os.getpid() != self.process:
            return None
        from masquerade.pytest_plugin import protocol

        item.stash[protocol.LIMIT] = settings.timeout
        return True

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        return None if item.get_closest_marker("machine") is None or os.getpid() != self.process else True


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("machine") is not None:
        from masquerade.pytest_plugin import machine_mark

        machine_mark.parametrize(metafunc)


@pytest.fixture
def masquerade_machine(request: pytest.FixtureRequest) -> Machine:
    """The masquerade.machines.Machine that a test marked `machine` runs on."""
    if not hasattr(request, "param"):
        pytest.fail("masquerade_machine is for tests marked @pytest.mark.machine(...)", pytrace=False)
    from masquerade import machines

    return machines.resolve(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marks = sys.modules.get("masquerade.pytest_plugin.hardware_marks")
    if marks is not None:
        marks.fail_if_required(item)


@pytest.fixture(scope="session")
def stage() -> Stage:
    """A masquerade.Stage for the whole session (of each xdist worker); its fork server starts with the first check."""
    from masquerade.testing import shared_stage

    return shared_stage()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of pytest-xdist is about to start."""
    from masquerade.pytest_plugin import workers

    workers.open_folder(node.config, node.workerinput)


def pytest_unconfigure(config: pytest.Config) -> None:
    workers = sys.modules.get("masquerade.pytest_plugin.workers")
    if workers is not None:
        workers.remove_folder(config)
    testing = sys.modules.get("masquerade.testing")
    if testing is not None:
        testing.close()
