"""`path`: each test by each way; memory that shows what a kernel did not write; what ran, said in the report."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings

from . import ways

# Deadlines measure the machine's load, not the code.
settings.register_profile("numerics", deadline=None)
settings.load_profile("numerics")

# Side by side, processes share the cores: torch would take them all in each.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))

# cuBLAS is deterministic only with a workspace of its own, and torch refuses it otherwise in the mode below.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def pytest_report_header() -> str:
    return f"numerics: {ways.versions()}"


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Fill what torch.empty gives with NaN, so that an element that a kernel does not write shows."""
    # torch.use_deterministic_algorithms does the same, and imports all of torch._inductor for it.
    torch.set_deterministic_debug_mode("error")
    yield
    torch.set_deterministic_debug_mode("default")


@pytest.fixture
def as_in_service(_poisoned_memory):
    """Memory and torch's algorithms as they are in service, where a test is about bits, time or memory."""
    torch.set_deterministic_debug_mode("default")


@pytest.fixture(autouse=True)
def _plain_torch(monkeypatch):
    """Unless a test asks for the interpreter, CPU tensors take the CPU path."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")


@pytest.fixture
def interpreter(_plain_torch, monkeypatch):
    """Triton's interpreter, or a skip where it cannot run the kernels."""
    if why_not := ways.why_not_interpreter():
        pytest.skip(why_not)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with ways.interpreted():
        yield


@pytest.fixture
def device(_plain_torch, record_property):
    """The accelerator that a hardware mark found. What it is stands in the JUnit file, at each test that it ran."""
    device = ways.accelerator()
    record_property("device", ways.described(device))
    return device


@pytest.fixture(params=[ways.WAYS[name] for name in ways.EVERY_WAY])
def path(request):
    """Run the test once by each way; `ways.by` names some of them."""
    if request.param == "device":
        return ways.Way("device", request.getfixturevalue("device"))
    if request.param == "interpreter":
        request.getfixturevalue("interpreter")
    return ways.Way(request.param, torch.device("cpu"))
