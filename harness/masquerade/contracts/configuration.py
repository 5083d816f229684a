"""Finds and reads a project's configuration. Whatever is wrong with it is told at once, before anything is done."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from masquerade.contracts import kinds, locate
from masquerade.contracts.conditions import Conditions
from masquerade.contracts.contract import Contract
from masquerade.contracts.errors import ConfigurationError
from masquerade.contracts.settings import Place, hint, read, setting

#: The kinds of contract: the class of each, as module:class. A new kind is a new line here and a module.
KINDS = {
    "imports": "masquerade.contracts.imports:Imports",
    "calls": "masquerade.contracts.calls:Calls",
    "routing": "masquerade.contracts.routing:Routing",
    "codegen": "masquerade.contracts.codegen:Codegen",
}

#: Keys that are not settings of Configuration: they are read by themselves.
_OTHERS = ("contracts",)


@dataclass(frozen=True, kw_only=True)
class _Files:
    """Settings that others are read with."""

    machine_files: tuple[str, ...] = setting(kinds.machine_files, "Files and folders with machines of your own.", ())


@dataclass(frozen=True, kw_only=True)
class Configuration(Conditions, _Files):
    """What a project asks for: its contracts, and what holds for all of them. `path` and files are absolute."""

    root: Path
    file: Path
    python: str | None = setting(kinds.interpreter, "The subject's interpreter; masquerade need not be there.", None)
    contracts: tuple[Contract, ...] = field(default=())

    def amended(self, **changes: Any) -> Configuration:
        """With conditions on top of those of the configuration and of each of its contracts: see Conditions.amend."""
        contracts = tuple(contract.amend(**changes) for contract in self.contracts)
        return dataclasses.replace(self.amend(**changes), contracts=contracts)


def load(start: Path | str = ".", file: Path | str | None = None, act: str = "") -> Configuration:
    """The configuration in `file`, or the nearest one in `start` and the folders above it.

    `act` is the golden act that is to come, if one is: it mends some of what is otherwise an error.
    Raises ConfigurationError, which lists every problem with its file and line.
    """
    document, tables = locate.opened(locate.named(Path(file)) if file is not None else locate.nearest(Path(start)))
    configuration = _read(tables, Place(document), act)
    if configuration is None:
        raise ConfigurationError(document.problems)
    return configuration


def _read(tables: Mapping[str, Any], place: Place, act: str) -> Configuration | None:
    document = place.document
    root = place.root
    defaults = Conditions(path=tuple(str(folder) for folder in (root / "src", root) if folder.is_dir()))
    common = read(Configuration, tables, place, base=defaults, known=_OTHERS, root=root, file=document.file)
    contracts = list(_contracts(tables.get("contracts"), place.at("contracts"), common or defaults, act))
    if document.problems or common is None:
        return None
    return dataclasses.replace(common, contracts=tuple(contracts))


def _contracts(listed: Any, place: Place, common: Any, act: str) -> Iterator[Contract]:
    if not isinstance(listed, list) or not listed:
        place.report("there is no contract; begin one with a [[contracts]] table that has a name and a kind")
        return
    first: dict[Any, Place] = {}
    for index, table in enumerate(listed):
        at = place.at(index)
        if not isinstance(table, Mapping):
            at.report("expected a table with a name and a kind")
            continue
        name, kind = table.get("name"), table.get("kind")
        at = at.called(name) if isinstance(name, str) and name else at
        if isinstance(name, str) and first.setdefault(name, at) is not at:
            at.at("name").report(f"{name!r} is the name of the contract in line {first[name].line} too")
        if not isinstance(kind, str) or kind not in KINDS:
            known = " or ".join(KINDS)
            at.at("kind").report(f"missing: {known}" if kind is None else f"no kind {kind!r}{hint(str(kind), KINDS)}")
            continue
        module, _, cls = KINDS[kind].partition(":")
        made: Contract | None = read(getattr(import_module(module), cls), table, at, base=common, place=at)
        if made is not None:
            yield made.prepared(act)
