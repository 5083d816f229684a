"""The machine here: its platform is that of the torch that is installed, loaded or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import write
from masquerade.stage.disguise import real_platform

VERSION = """\
from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'hip', 'xpu']
__version__ = '2.13.0'
debug = False
cuda: Optional[str] = {cuda}
hip: Optional[str] = {hip}
xpu: Optional[str] = None
"""


@pytest.mark.parametrize(
    ("cuda", "hip", "platform"), [("'13.0'", "None", "cuda"), ("None", "'7.1.25424'", "rocm"), ("None", "None", "cpu")]
)
def test_of_a_torch_that_is_not_loaded(tmp_path: Path, monkeypatch, cuda: str, hip: str, platform: str) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(write(tmp_path, {"torch/__init__.py": "", "torch/version.py": ""})))
    (tmp_path / "torch/version.py").write_text(VERSION.format(cuda=cuda, hip=hip))
    assert real_platform() == platform


@pytest.mark.parametrize(
    "files", [{"torch/__init__.py": ""}, {"torch.py": ""}, {"torch/version.py": "cuda = '13.0'\n"}]
)
def test_of_something_else_by_that_name(tmp_path: Path, monkeypatch, files: dict[str, str]) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "path", [str(write(tmp_path, files))])
    assert real_platform() == "cpu"
