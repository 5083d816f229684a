"""The contracts of masquerade.toml as tests, on the machines of the chosen worlds; of xpu/ where triton-xpu is."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from masquerade.pytest_plugin.contract_items import CaseItem, ConfigurationFile, WholeItem

HERE = Path(__file__).parent


class WithoutCompiler(pytest.File):
    """A configuration whose machines this environment's Triton does not compile for."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip("Triton has no compiler for Intel here: `tox run -e codegen-xpu` brings triton-xpu")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # A configuration that is named on the command line is collected by the plugin itself.
    if file_path.name != "masquerade.toml" or parent.session.isinitpath(file_path):
        return None
    if file_path.parent != HERE and "xpu" not in (parent.config.getoption("world") or ("xpu",)):
        return None
    if file_path.parent != HERE and not compiles_for_intel():
        return WithoutCompiler.from_parent(parent, path=file_path)
    return ConfigurationFile.from_parent(parent, path=file_path)


def compiles_for_intel() -> bool:
    """Whether the installed Triton has Intel's backend. Nothing is imported."""
    found = importlib.util.find_spec("triton")
    return any(
        Path(folder, "backends", "intel").is_dir() for folder in (found and found.submodule_search_locations) or ()
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    worlds = config.getoption("world") or ("cuda", "rocm", "xpu", "cpu")
    left_out = []
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        if isinstance(item, WholeItem):  # what is known of some machines is worth asking of them
            item.cases = [case for case in item.cases if case.check.machine.platform in worlds]
        if not _runs(item, worlds):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _runs(item: pytest.Item, worlds: Sequence[str]) -> bool:
    if isinstance(item, WholeItem):
        return bool(item.cases)
    if isinstance(item, CaseItem):
        return item.case.check.machine.platform in worlds
    return not {"cuda", "rocm"}.isdisjoint(worlds)  # the platforms that stock Triton compiles for
