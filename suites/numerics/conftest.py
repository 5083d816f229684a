"""The ways a kernel can run without a device: `torch` is the CPU path, `interpreter` is Triton's (logic only)."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

import pytest
import torch
from hypothesis import settings

from blockscale.kernels import triton as kernels


def _import_interpreted() -> None:
    """Triton decides when a kernel's module is imported whether it will be interpreted, the launchers at each call.
    With the switch on at import, and then put back, one process can test both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        for module in pkgutil.iter_modules(kernels.__path__, kernels.__name__ + "."):
            importlib.import_module(module.name)


_import_interpreted()

# Deadlines measure the machine's load, not the code.
settings.register_profile("numerics", deadline=None)
settings.load_profile("numerics")


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Fill what torch.empty gives with NaN, so that an element that a kernel does not write shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True)
def _plain_torch(monkeypatch):
    """Unless a test asks for the interpreter, it tests the CPU path."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")


@pytest.fixture
def interpreter(_plain_torch, monkeypatch):
    """Triton's interpreter, or a skip where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed, and its interpreter is asked for")
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture(params=["torch", "interpreter"])
def path(request):
    """Run the test once by each path."""
    if request.param == "interpreter":
        request.getfixturevalue("interpreter")
    return request.param
