"""The contracts of a configuration as test items: one for each check, and one for each contract as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from masquerade.pytest_plugin.results import Results
from masquerade.pytest_plugin.workers import workers
from masquerade.testing import explain, shared_stage, warning

if TYPE_CHECKING:
    from masquerade.contracts import Broken, Case, Configuration, Contract

#: The files that may hold a configuration.
NAMES = ("masquerade.toml", "pyproject.toml")

#: The configuration that the run asks for; pytest drops an argument that lies below another one.
_ASKED: pytest.StashKey[Path] = pytest.StashKey()


class BrokenError(Exception):
    """A contract does not hold; the text says what broke."""


class ContractWarning(pytest.PytestWarning):
    """A finding whose level is warn, or a stand-in that is stale."""


def add_configuration(config: pytest.Config) -> None:
    """Have the configuration collected, where --contracts or the ini option asks for it.

    The ini option speaks for runs that name no files. Raises pytest.UsageError where there is no configuration.
    """
    flag, listed = config.getoption("contracts"), config.args_source == pytest.Config.ArgsSource.ARGS
    if not flag and (listed or not config.getini("masquerade_contracts")):
        return
    file = configured(config.rootpath)
    if file is None:
        asked = "--contracts" if flag else "masquerade_contracts"
        raise pytest.UsageError(
            f"{asked}: no masquerade.toml and no [tool.masquerade] of a pyproject.toml in {config.rootpath}"
        )
    config.stash[_ASKED] = file
    known = {(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args}
    if known.isdisjoint((file.resolve(), *file.resolve().parents)):  # a folder that is named leads to it
        config.args.append(str(file))


def collector(parent: pytest.Collector, file: Path) -> ConfigurationFile | None:
    """What collects `file`, if it holds a configuration and is asked for."""
    if not parent.session.isinitpath(file) and parent.config.stash.get(_ASKED, None) != file:
        return None
    if configured(file.parent) != file:
        return None
    return ConfigurationFile.from_parent(parent, path=file)


def configured(root: Path) -> Path | None:
    """The configuration in the folder `root`."""
    for name in NAMES:
        file = root / name
        if file.is_file() and (name == "masquerade.toml" or "[tool.masquerade" in file.read_text(errors="replace")):
            return file
    return None


class ConfigurationFile(pytest.File):
    """A configuration; its items are the checks of all contracts."""

    configuration: Configuration
    results: Results

    def collect(self) -> Iterator[pytest.Item]:
        from masquerade import contracts
        from masquerade.stage import StageError, SubjectError
        from masquerade.stage.standins import stale

        # Modules are found without torch: that starts fast, and imports none of them.
        finder = shared_stage(torch=False)
        try:
            self.configuration = contracts.load(file=self.path)
            if self.configuration.python:
                finder = shared_stage(self.configuration.python, torch=False)
            cases = contracts.collect(self.configuration.contracts, finder.discover)
            notes = list(stale((case.check for case in cases), finder.discover))
        except (contracts.ConfigurationError, StageError, SubjectError) as error:
            raise self.CollectError(str(error)) from None
        for note in notes:
            self.warn(ContractWarning(note))
        self.results = Results(self.configuration, self.path, self.config, self._selected)
        items = list(self._items(cases))
        if workers(self.config):  # neighbours come to one worker: those of a machine share its server
            items.sort(key=lambda item: item.case.check.machine.id if isinstance(item, CaseItem) else "~")
        yield from items

    def _selected(self) -> list[Case]:
        return [item.case for item in self.session.items if isinstance(item, CaseItem) and item.parent is self]

    def _items(self, cases: Sequence[Case]) -> Iterator[CaseItem | WholeItem]:
        by_contract: dict[str, list[Case]] = {contract.name: [] for contract in self.configuration.contracts}
        for case in cases:
            by_contract[case.contract].append(case)
        for contract in self.configuration.contracts:
            found = by_contract[contract.name]
            for case in found:
                yield CaseItem.from_parent(self, name=case.id, case=case)
            # A contract may know more when its cases are made: it is theirs.
            yield WholeItem.from_parent(self, name=f"{contract.kind}/{contract.name}/whole",
                                        contract=found[0].owner if found else contract, cases=found)  # fmt: skip


class _ContractItem(pytest.Item):
    """What both kinds of item have: a place in the configuration, and a failure that is its own explanation."""

    parent: ConfigurationFile
    line: int

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from masquerade.contracts import ConfigurationError
        from masquerade.stage import StageError, SubjectError

        if isinstance(excinfo.value, (BrokenError, ConfigurationError, StageError, SubjectError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, max(self.line - 1, 0), self.name


class CaseItem(_ContractItem):
    """One check of a contract."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case, self.line = case, case.line
        machine = case.check.machine
        self.extra_keyword_matches |= {case.kind, case.contract, machine.id, machine.platform}

    def runtest(self) -> None:
        record = self.parent.results.record(self.case)
        self.user_properties += [
            ("machine", record.machine),
            ("platform", record.platform),
            ("verdict", record.verdict),
            *(("stand-in", name) for name in record.stand_ins),
        ]
        if record.output:
            self.add_report_section("call", "stdout", record.output)
        if record.failed:
            raise BrokenError(explain(replace(record, output="")))
        for finding in record.findings:
            self.warn(ContractWarning(warning(finding)))


class WholeItem(_ContractItem):
    """What only all checks of a contract show together: stale entries, nothing checked."""

    def __init__(self, *, contract: Contract, cases: Sequence[Case], **options: Any) -> None:
        super().__init__(**options)
        self.contract, self.cases, self.line = contract, cases, contract.line
        self.extra_keyword_matches |= {contract.kind, contract.name}

    def runtest(self) -> None:
        broken: Sequence[Broken] = self.contract.finish(self.parent.results.all(self.cases))
        if broken:
            raise BrokenError("\n".join(map(str, broken)))
