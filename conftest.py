"""Shared by all suites: `--world` says as which platforms they run."""

from __future__ import annotations

import pytest

#: The plugin is tested by runs of pytest inside a test.
pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--world",
        action="append",
        choices=("cuda", "rocm", "xpu", "cpu"),
        help="Run the suites as this platform; may be given more than once. All four without it.",
    )
