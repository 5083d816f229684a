"""Runs of pytest with the plugin, in a process of their own and on hosts with the hardware that a test gives them."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import masquerade

ROOT = Path(masquerade.__file__).parents[1]

#: Where masquerade is installed pytest finds the plugin by itself; elsewhere it must be named.
INSTALLED = any(entry.value == "masquerade.plugin" for entry in importlib.metadata.entry_points(group="pytest11"))

Tool = Callable[..., None]
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def tool(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put a program first on PATH that prints lines; until then no vendor's tool is there."""
    folder = pytester.mkdir("tools")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def tool(name: str, *lines: str) -> None:
        file = folder / name
        file.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}'" for line in lines)]))
        file.chmod(0o755)

    return tool


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest with the plugin in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    hiding = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    for name in (*hiding, "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    # A test that writes its file anew within a second and at the same length would else be run as it was before.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    named = () if INSTALLED else ("-p", "masquerade.plugin")

    def run(*args: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(*named, *args)

    return run
