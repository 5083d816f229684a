"""Importing blockscale has no side effects: written by hand, with pytest-forked alone, without masquerade.

It sees this machine and this build of torch only. Each test is forked from a pytest process that has imported
torch and nothing of blockscale.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path

import pytest

from .conftest import modules_of

pytest.importorskip("pytest_forked", reason="pytest-forked is not installed")
if pytest.version_tuple >= (9, 2):
    pytest.skip("pytest-forked 1.7.5 fails every test from pytest 9.2 on", allow_module_level=True)

pytestmark = pytest.mark.forked

MODULES = modules_of("blockscale")
#: Packages that one vendor's machines have; torch itself imports pynvml and amdsmi.
VENDORS = ("aiter", "amdsmi", "deep_gemm", "flash_attn", "flashinfer", "intel_extension_for_pytorch", "vllm")


@pytest.mark.parametrize("name", MODULES)
def test_an_import_touches_no_device(name: str, touched: list[str]) -> None:
    importlib.import_module(name)
    assert touched == []


@pytest.mark.parametrize("name", MODULES)
def test_an_import_executes_no_vendors_module(name: str) -> None:
    importlib.import_module(name)
    assert [vendor for vendor in VENDORS if vendor in sys.modules] == []


def test_importing_everything_changes_neither_environment_nor_threads(touched: list[str]) -> None:
    started: list[object] = []
    sys.addaudithook(lambda event, args: started.append(args[0]) if event == "subprocess.Popen" else None)
    environment, threads = dict(os.environ), threading.active_count()
    for name in MODULES:
        importlib.import_module(name)
    assert len(MODULES) > 30
    assert dict(os.environ) == environment
    assert threading.active_count() == threads
    assert started == []


def test_the_traps_see_a_device_that_is_touched(touched: list[str], tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "touches.py").write_text(
        "import torch\ntry:\n    torch.cuda.get_device_capability()\nexcept Exception:\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("touches")
    assert touched == ["torch.cuda.get_device_capability"]
