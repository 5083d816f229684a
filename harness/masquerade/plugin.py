"""The pytest plugin: options, marks and fixtures. What stands behind them is loaded when a run first needs it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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


def pytest_configure(config: pytest.Config) -> None:
    for platform, example in HARDWARE.items():
        config.addinivalue_line(
            "markers",
            f"{platform}(*archs): needs real {platform} hardware, of one of these archs if any are named "
            f"(@pytest.mark.{platform}({example})); skipped elsewhere",
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    required = config.getoption("require_hardware")
    if required or any(mark.name in HARDWARE for item in items for mark in item.iter_markers()):
        from masquerade.pytest_plugin import hardware_marks

        hardware_marks.apply(items, required)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("require_hardware"):
        from masquerade.pytest_plugin import hardware_marks

        hardware_marks.something_selected(session.items, session.config.getoption("require_hardware"))


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


def pytest_unconfigure() -> None:
    testing = sys.modules.get("masquerade.testing")
    if testing is not None:
        testing.close()
