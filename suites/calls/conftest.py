"""The contracts of masquerade.toml as tests, on the machines of the chosen worlds."""

from __future__ import annotations

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
    left_out = [item for item in items if not _platforms(item) <= set(worlds)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _platforms(item: pytest.Item) -> set[str]:
    """The platforms that an item of this folder needs; what only all cases of a contract show needs all of them."""
    if item.path.parent != Path(__file__).parent:
        return set()
    cases = [item.case] if isinstance(item, CaseItem) else item.cases if isinstance(item, WholeItem) else ()
    return {case.check.machine.platform for case in cases}
