"""Runs a file of tests in the process that the stage gave, and says which of them failed."""

from __future__ import annotations

import sys
from typing import Any

import pytest


class _Outcomes:
    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.location[2].partition("[")[0]
        if report.failed:
            self.failed[name] = None
        elif report.when == "call":
            self.passed += report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[f"collecting {report.nodeid}"] = None


def run(file: str, expression: str, folder: str) -> dict[str, Any]:
    """The names of the tests that failed, and how many passed, of those in `file` that -k `expression` chooses.

    folder: what they test lies in it.
    """
    sys.path.insert(0, folder)
    outcomes = _Outcomes()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib"]
    status = pytest.main([file, "-k", expression, *options], plugins=[outcomes])
    return {"failed": list(outcomes.failed), "passed": outcomes.passed, "status": int(status)}
