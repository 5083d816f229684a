"""The contracts of masquerade.toml as tests, on the machines of the chosen worlds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from masquerade.pytest_plugin.contract_items import CaseItem, ConfigurationFile, WholeItem


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # A configuration that is named on the command line is collected by the plugin itself.
    if file_path.name == "masquerade.toml" and not parent.session.isinitpath(file_path):
        return ConfigurationFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    worlds = config.getoption("world") or ("cuda", "rocm", "xpu", "cpu")
    left_out = []
    for item in items:
        if item.path.parent != Path(__file__).parent:
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
    return not {"cuda", "rocm"}.isdisjoint(worlds)  # the platforms that Triton compiles for
