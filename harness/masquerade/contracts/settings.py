"""Classes of typed settings, and how one is read from a table of TOML: everything wrong with it is told at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from masquerade.contracts.errors import Problem, shown
from masquerade.machines import lines
from masquerade.machines.errors import nearest

T = TypeVar("T")

#: The way to a value: keys of tables, and indices of lists from 0.
Keys = tuple[str | int, ...]


class WrongError(ValueError):
    """A value is not what its setting holds; the message says what was expected and found."""


@dataclass
class Document:
    """One configuration file: the lines of its keys, where it hangs in the file, and all problems found so far.

    `owned` are the modules that owners are named for, and where: whether they are there shows later.
    """

    file: Path
    lines: dict[Keys, int]
    top: Keys = ()
    machine_files: tuple[str, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    owned: dict[str, list[Place]] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where in a document a value stands. `spoken` is how messages call it."""

    document: Document
    keys: Keys = ()
    spoken: str = ""

    def at(self, *keys: str | int) -> Place:
        inner = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        return Place(self.document, (*self.keys, *keys), (self.spoken + inner).lstrip("."))

    def called(self, name: str) -> Place:
        return Place(self.document, self.keys, name)

    @property
    def root(self) -> Path:
        """The folder that relative files stand below."""
        return self.document.file.parent

    @property
    def file(self) -> str:
        return shown(self.document.file)

    @property
    def line(self) -> int:
        return lines.line_of(self.document.lines, (*self.document.top, *self.keys))

    def problem(self, message: str) -> Problem:
        return Problem(self.file, self.line, self.spoken, message)

    def report(self, message: str) -> None:
        self.document.problems.append(self.problem(message))


#: Reads one value, or raises WrongError. A kind that holds others reports what is wrong with each of them.
Kind = Callable[[Any, Place], T]


@dataclass(frozen=True)
class Setting:
    """How a field is read: its kind, what it is for, and how it goes together with the value that holds for all.

    `key` is what the configuration calls it, where that is not the field's name.
    """

    kind: Kind[Any]
    doc: str
    required: bool
    merge: Callable[[Any, Any], Any] | None = None
    key: str = ""


def setting(kind: Kind[T], doc: str, default: Any = dataclasses.MISSING, merge: Any = None, key: str = "") -> Any:
    """A dataclass field that is read from the configuration. Required without a default; a callable makes one."""
    metadata = {"setting": Setting(kind, doc, default is dataclasses.MISSING, merge, key)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def settings(cls: type) -> dict[str, Setting]:
    """The settings of a class by what the configuration calls them, in the order in which they are declared."""
    return {declared.key or name: declared for name, declared in _fields(cls)}


def _fields(cls: type) -> Iterator[tuple[str, Setting]]:
    return ((f.name, f.metadata["setting"]) for f in dataclasses.fields(cls) if "setting" in f.metadata)


def read(
    cls: type[T], table: Any, place: Place, /, *, base: Any = None, known: Iterable[str] = (), **given: Any
) -> T | None:
    """An object of `cls`, its settings read from `table`; None, with all problems reported, where that cannot be.

    `base` is an object whose values hold where the table is silent; `known` are keys that somebody else reads. A method
    `wrong()` of `cls` gives what does not fit together, as (keys, message).
    """
    if not isinstance(table, Mapping):
        place.report(f"expected a table, found {spoken(table)}")
        return None
    problems = place.document.problems
    before = len(problems)
    declared = settings(cls)
    for key in table:
        if key not in declared and key not in known:
            place.at(key).report(f"no such setting{hint(key, [*declared, *known])}")
    values = dict(given)
    for name, declaration in _fields(cls):
        key = declaration.key or name
        inherited = getattr(base, name, dataclasses.MISSING)
        if key in table:
            values[name] = attempt(declaration.kind, table[key], place.at(key))
            if declaration.merge and values[name] is not None and inherited is not dataclasses.MISSING:
                values[name] = declaration.merge(inherited, values[name])
        elif inherited is not dataclasses.MISSING:
            values[name] = inherited
        elif declaration.required:
            place.report(f"{key} is missing: {declaration.doc}")
    if len(problems) > before:
        return None
    made = cls(**values)
    for keys, message in getattr(made, "wrong", _nothing)():
        place.at(*keys).report(message)
    return made if len(problems) == before else None


def _nothing() -> Iterator[tuple[Keys, str]]:
    return iter(())


def attempt(kind: Kind[T], value: Any, place: Place) -> T | None:
    """What `kind` makes of a value; None, with the problem reported, if it is none of its kind."""
    try:
        return kind(value, place)
    except WrongError as error:
        place.report(str(error))
        return None


def spoken(value: Any) -> str:
    """A value as an error names it."""
    words = {dict: "a table", list: "a list", bool: "true or false", str: "text", int: "a number", float: "a number"}
    word = words.get(type(value), f"a {type(value).__name__}")
    return word if isinstance(value, (dict, list)) else f"{word}: {value!r}"


def hint(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: what may have been meant, or all that there is."""
    names = list(known)
    close = nearest(word, names)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(names)}"
