"""For hand-written tests of import side effects: the modules of the package, and traps that see a device touched."""

from __future__ import annotations

import faulthandler
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch  # noqa: F401  once, before the forks: each child has it, and none pays for it

#: Functions of torch that open a device, or poison every later fork on a CUDA build.
PROBES = {
    "torch.cuda": (
        "_lazy_init",
        "current_device",
        "device_count",
        "get_device_capability",
        "get_device_name",
        "get_device_properties",
        "is_available",
        "is_bf16_supported",
    ),
    "torch.xpu": ("_lazy_init", "current_device", "get_device_capability", "get_device_name", "get_device_properties"),
    "torch.accelerator": ("current_device_index", "device_count", "is_available"),
}


def modules_of(package: str) -> list[str]:
    """Every module of an installed package, by its files: none is imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin, f"{package} is not installed"
    root = Path(spec.origin).parent
    names = [file.relative_to(root.parent).with_suffix("").parts for file in sorted(root.rglob("*.py"))]
    return [".".join(parts).removesuffix(".__init__") for parts in names]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """pytest's faulthandler_timeout is a thread, which a fork loses: a child that fails would wait for it for ever."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The probes that were called since the fixture was set up, in the forked child."""
    seen: list[str] = []
    for name, functions in PROBES.items():
        for function in functions:

            def trap(*args: object, _name: str = f"{name}.{function}", **kwargs: object) -> None:
                seen.append(_name)
                raise RuntimeError(f"{_name} was called while a module was imported")

            monkeypatch.setattr(sys.modules[name], function, trap)
    yield seen


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> None:
    """The process that is forked must not have imported what the test imports: where other suites run, it has."""
    if "blockscale" not in sys.modules:
        return
    here = Path(__file__).parent
    if any(item.path.parent != here for item in request.session.items):
        pytest.skip("another suite has imported blockscale in this process: run suites/plain by itself")
    pytest.fail("the pytest process has imported blockscale: nothing can be seen any more")
