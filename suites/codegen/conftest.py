"""What runs here follows what Triton compiles for: xpu/ where triton-xpu is, the tests for a stock Triton's GPUs."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class WithoutCompiler(pytest.File):
    """A configuration whose machines this environment's Triton does not compile for."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip("Triton has no compiler for Intel here: `tox run -e codegen-xpu` brings triton-xpu")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    if file_path.parent != HERE / "xpu" or not found:
        return found
    if "xpu" not in parent.config.getoption("world"):
        return []
    return found if compiles_for_intel() else [WithoutCompiler.from_parent(parent, path=file_path)]


def compiles_for_intel() -> bool:
    """Whether the installed Triton has Intel's backend. Nothing is imported."""
    found = importlib.util.find_spec("triton")
    return any(
        Path(folder, "backends", "intel").is_dir() for folder in (found and found.submodule_search_locations) or ()
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if {"cuda", "rocm"}.isdisjoint(config.getoption("world")):
        left_out = [item for item in items if isinstance(item, pytest.Function) and item.path.is_relative_to(HERE)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
