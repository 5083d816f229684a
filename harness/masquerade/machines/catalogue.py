"""All machines that can be named: those that come with masquerade, those in files, and those of entry points."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from . import variants
from .build import assemble
from .errors import MachineError, Problem, UnknownMachineError, nearest
from .machine import HERE, Machine
from .schema import PLATFORMS
from .sheet import Fact, Sheet, check_sheet, read_sheet

#: Files and folders of users' machines, separated as in PATH.
VARIABLE = "MASQUERADE_MACHINES"
ENTRY_POINTS = "masquerade.machines"

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


def _bundled(folder: str) -> dict[str, Any]:
    """The TOML files of a folder of this package, by name, wherever the package lies (a zip file too)."""
    root = import_module("importlib.resources").files(__package__).joinpath(folder)
    return {file.name[:-5]: file for file in root.iterdir() if file.name.endswith(".toml")}


class Zoo:
    """Machines by name. `files` adds users' files and folders to those of MASQUERADE_MACHINES and of entry points.

    Raises MachineError, which lists every bad field, as soon as one of the added machines proves not valid.
    """

    def __init__(self, files: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._bases = _bundled("bases")
        self._files = _bundled("zoo")
        self._sheets: dict[str, Sheet] = {}
        self._names: dict[str, str] | None = None
        self._asked = False
        self._machines: dict[str, Machine] = {}
        listed = [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]
        self._added = [sheet for path in (*listed, *files) for sheet in _read_path(Path(path))]

    def names(self, aliases: bool = False) -> list[str]:
        """Every machine's id, by platform and name, `here` first; with their aliases if asked."""
        index = self._index()
        chosen = index if aliases else set(index.values())
        return [HERE.id, *sorted(chosen, key=lambda name: (PLATFORMS.index(self._machine(index[name]).platform), name))]

    def machines(self) -> list[Machine]:
        """Every machine, in the order of names()."""
        return [self.resolve(name) for name in self.names()]

    def resolve(self, name: str) -> Machine:
        """The machine that a name means. Raises UnknownMachineError with the nearest names."""
        if name == HERE.id:
            return HERE
        direct = name in self._files and not self._added
        index: Mapping[str, str] = {name: name} if direct else {**self._index(), HERE.id: HERE.id}
        variant = variants.split(name, index)
        if variant is None:
            raise self._unknown(name, index)
        if index[variant.base] == HERE.id:
            raise UnknownMachineError(name, f"{name}: the machine that one has takes no variant", [HERE.id])
        return variants.apply(self._machine(index[variant.base], variant.count), variant)

    def _unknown(self, name: str, index: Mapping[str, str]) -> UnknownMachineError:
        """The error for a name that no machine has; an arch has machines."""
        having = [machine.id for machine in self.machines() if machine.arch == name.lower()]
        if having:
            return UnknownMachineError(name, f"{name} is an arch, not a machine", having)
        message = f"unknown machine {name!r}; `masquerade machines` lists them{_own(name)}"
        return UnknownMachineError(name, message, nearest(name.lower(), index))

    def load(self, path: str | os.PathLike[str]) -> Machine:
        """The machine in a file, which may extend any other. Raises MachineError."""
        sheet = _read_file(Path(path))
        return variants.apply(self._assemble(sheet, None), variants.Variant(sheet.id))

    def _index(self) -> dict[str, str]:
        """Every name -> the id that it means."""
        if self._names is None:
            if not self._asked:
                self._added += _entry_points()
                self._asked = True
            bundled = [self._sheet(id) for id in self._files]
            names = _claim_names([*bundled, *self._added])
            self._sheets |= {sheet.id: sheet for sheet in self._added}
            problems: list[Problem] = []
            for sheet in self._added:
                try:
                    self._assemble(sheet, None)
                except MachineError as error:
                    problems += error.problems
            if problems:
                raise MachineError(problems)
            self._names = names
        return self._names

    def _sheet(self, id: str) -> Sheet:
        if id not in self._sheets:
            self._sheets[id] = read_sheet(self._files[id].read_text(encoding="utf-8"), f"zoo/{id}.toml", id)
        return self._sheets[id]

    def _base(self, name: str) -> Sheet:
        key = f"bases/{name}"
        if key not in self._sheets:
            self._sheets[key] = read_sheet(self._bases[name].read_text(encoding="utf-8"), f"{key}.toml", name)
        return self._sheets[key]

    def _machine(self, id: str, count: int | None = None) -> Machine:
        sheet = self._sheet(id)
        key = f"{id}x{count}"
        if key not in self._machines:
            self._machines[key] = self._assemble(sheet, count)
        return self._machines[key]

    def _assemble(self, sheet: Sheet, count: int | None) -> Machine:
        others = []
        for other in sheet.others:
            if other not in self._files and other not in self._sheets:
                raise MachineError([sheet.problem(f"others: no machine {other!r}{self._hint(other)}", "others")])
            others.append(self._machine(other))
        return assemble(sheet, self._facts(sheet, ()), count, others)

    def _facts(self, sheet: Sheet, below: tuple[str, ...]) -> dict[str, Fact]:
        """The facts of a sheet over those of what it extends; of two that it extends the later wins."""
        facts: dict[str, Fact] = {}
        for name in sheet.extends:
            if name in below or (name == sheet.id and name not in self._bases):
                chain = " -> ".join((*below, sheet.id, name))
                raise MachineError([sheet.problem(f"extends: {chain} goes round in a circle", "extends")])
            facts |= self._facts(self._extended(sheet, name), (*below, sheet.id))
        return facts | dict(sheet.facts)

    def _extended(self, sheet: Sheet, name: str) -> Sheet:
        if name in self._bases:
            return self._base(name)
        added = next((found for found in self._added if found.id == name), None)
        if added is not None:
            return added
        if name in self._files:
            return self._sheet(name)
        raise MachineError([sheet.problem(f"extends: no base or machine {name!r}{self._hint(name)}", "extends")])

    def _hint(self, name: str) -> str:
        close = nearest(name, [*self._bases, *self._files, *(sheet.id for sheet in self._added)])
        return f"; nearest: {', '.join(close)}" if close else ""


def _own(name: str) -> str:
    """How a machine in a file is made known, where a name is that of a file; "" where it is not."""
    if name.endswith(".toml"):
        return f"; a machine of your own: {VARIABLE}={name}"
    stem = re.split(r"x\d+|[+-]", name)[0]
    file = next((f"{each}.toml" for each in (name, stem) if os.path.isfile(f"{each}.toml")), "")
    return f"; a machine of your own: {VARIABLE}={file}" if file else ""


def _claim_names(sheets: Iterable[Sheet]) -> dict[str, str]:
    """Name -> id. Raises MachineError where two machines want one name, or a name cannot be written with a variant."""
    owners: dict[str, Sheet] = {}
    problems: list[Problem] = []
    for sheet in sheets:
        for name in (sheet.id, *sheet.aliases):
            where = "id" if name == sheet.id else "aliases"
            if not _ID.fullmatch(name):
                message = f"{where}: expected small letters, digits, '.', '_' and '-', not {name!r}"
                problems.append(sheet.problem(message, where))
            elif name in owners or name == HERE.id:
                taken = owners[name].origin if name in owners else "the machine that one has"
                problems.append(sheet.problem(f"{where}: {name!r} is taken by {taken}; choose another name", where))
            owners.setdefault(name, sheet)
    if problems:
        raise MachineError(problems)
    return {name: sheet.id for name, sheet in owners.items()}


def _read_path(path: Path) -> list[Sheet]:
    """The sheet of a file, or of each TOML file in a folder."""
    if path.is_dir():
        return [_read_file(file) for file in sorted(path.glob("*.toml"))]
    return [_read_file(path)]


def _read_file(path: Path) -> Sheet:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MachineError([Problem(str(path), 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise MachineError([Problem(str(path), line, "not TOML: expected UTF-8 text")]) from None
    return read_sheet(text, str(path), path.stem)


def _entry_points() -> list[Sheet]:
    """The machines that installed distributions offer: a path, a table, or a callable that gives one of them."""
    metadata = import_module("importlib.metadata")
    sheets: list[Sheet] = []
    for point in metadata.entry_points(group=ENTRY_POINTS):
        origin = f"entry point {point.name} = {point.value}"
        try:
            offered = point.load()
            if isinstance(offered, Callable) and not isinstance(offered, (str, Path)):  # type: ignore[arg-type]
                offered = offered()
        except Exception as error:
            message = f"cannot be loaded: {type(error).__name__}: {error}"
            raise MachineError([Problem(origin, 0, message)]) from error
        sheets += _offered(offered, origin, point.name)
    return sheets


def _offered(offered: object, origin: str, id: str) -> list[Sheet]:
    if isinstance(offered, (str, os.PathLike)):
        return _read_path(Path(offered))
    if isinstance(offered, Mapping):
        return [check_sheet(offered, origin, id)]
    message = f"expected a path, a table of facts or a callable that gives one, not {type(offered).__name__}"
    raise MachineError([Problem(origin, 0, message)])
