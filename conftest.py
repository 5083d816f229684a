"""Shared by all suites: `--world` says as which platforms they run; which suites are the contracts beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

#: The plugin is tested by runs of pytest inside a test.
pytest_plugins = ["pytester"]

WORLDS = ("cuda", "rocm", "xpu", "cpu")

SUITES = Path(__file__).parent / "suites"
#: The others run the contracts of a configuration in tests of their own.
OF_CONTRACTS = ("calls", "codegen")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--world",
        action="append",
        choices=WORLDS,
        help="Run the suites as this platform; may be given more than once. All four without it.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.option.world = config.option.world or list(WORLDS)  # to a default of the option it would be appended


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    # A configuration that is named on the command line is collected by the plugin itself.
    if file_path.name != "masquerade.toml" or parent.session.isinitpath(file_path):
        return None
    if not any(file_path.is_relative_to(SUITES / suite) for suite in OF_CONTRACTS):
        return None
    from masquerade.pytest_plugin.contract_items import ConfigurationFile

    return ConfigurationFile.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    worlds = config.getoption("world")
    if left_out := [item for item in items if not _chosen(item, worlds)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _chosen(item: pytest.Item, worlds: list[str]) -> bool:
    """Whether a contract's item is of the worlds; what only all cases of a contract show needs all of theirs."""
    from masquerade.pytest_plugin.contract_items import CaseItem, WholeItem

    if isinstance(item, CaseItem):
        return item.case.check.machine.platform in worlds
    if not isinstance(item, WholeItem):
        return True
    cases = [case for case in item.cases if case.check.machine.platform in worlds]
    if item.contract.kind == "codegen":  # what is known of some machines is worth asking of them
        item.cases = cases
        return bool(cases)
    return len(cases) == len(item.cases)
