"""Shared by all suites: `--world` says as which platforms they run, the fixture `world` is each of them in turn."""

from __future__ import annotations

import pytest

#: The bare words name the representative machines of the zoo.
WORLDS = ("cuda", "rocm", "xpu", "cpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--world",
        action="append",
        choices=WORLDS,
        help="Run the suites as this platform; may be given more than once. All four without it.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", metafunc.config.getoption("world") or WORLDS)
