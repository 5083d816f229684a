"""Kinds of values that a setting can hold. Each reads what TOML gave, or says what it expected instead."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping
from typing import Any, TypeVar

from masquerade import machines
from masquerade.contracts.errors import Problem
from masquerade.contracts.settings import Kind, Place, WrongError, attempt, hint, read, spoken
from masquerade.machines import HERE, Machine, MachineError, UnknownMachineError
from masquerade.machines.owners import OWNERS
from masquerade.stage.record import SEVERITY, Level

T = TypeVar("T")

_PART = r"[^\W\d]\w*"
_MODULE = rf"{_PART}(?:\.{_PART})*"


def text(value: Any, place: Place) -> str:
    if not isinstance(value, str) or not value.strip():
        raise WrongError(f"expected text in quotes, found {spoken(value)}")
    return value


def matching(expression: str, expected: str) -> Kind[str]:
    """A text that a regular expression matches as a whole."""
    pattern = re.compile(expression)

    def kind(value: Any, place: Place) -> str:
        if not pattern.fullmatch(text(value, place)):
            raise WrongError(f"expected {expected}, found {value!r}")
        return str(value)

    return kind


name = matching(r"[A-Za-z0-9][\w.+-]*", "a name of letters, digits and -_.+, as it stands in test ids")
module = matching(_MODULE, "a module name with dots, like pkg.kernels")
function = matching(f"{_MODULE}:{_MODULE}", "pkg.mod:func, a module and a function in it")
exception = matching(_PART, "the name of an exception's type alone, like ValueError")


def seconds(value: Any, place: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise WrongError(f"expected a number of seconds, 0 or more, found {spoken(value)}")
    return float(value)


def positive_seconds(value: Any, place: Place) -> float:
    return seconds(value, place) or _fail("expected more than 0 seconds")


def _fail(message: str) -> Any:
    raise WrongError(message)


def calls(value: Any, place: Place) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise WrongError(f"expected a number of calls, 0 or more, found {spoken(value)}")
    return value


def literal(value: Any, place: Place) -> Any:
    """Anything that JSON can hold too."""
    if isinstance(value, list):
        return [attempt(literal, item, place.at(index)) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {key: attempt(literal, item, place.at(key)) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise WrongError(f"{value} is no literal of JSON; make it in a factory")
    if not isinstance(value, (str, bool, int, float)):
        raise WrongError(f"expected text, a number, true, false, a list or a table, found {spoken(value)}")
    return value


def one_of(*words: str) -> Kind[Any]:
    def kind(value: Any, place: Place) -> str:
        if value not in words:
            raise WrongError(f"{value!r} is not known here{hint(str(value), words)}")
        return str(value)

    return kind


def _read(item: Kind[T], value: Any, place: Place) -> T:
    """One value inside another. Where it cannot be read that is reported, and nothing is made of the whole then."""
    return attempt(item, value, place)  # type: ignore[return-value]


def list_of(item: Kind[T]) -> Kind[tuple[T, ...]]:
    """A list; one text may stand without brackets."""

    def kind(value: Any, place: Place) -> tuple[T, ...]:
        if isinstance(value, str):
            return (item(value, place),)
        if not isinstance(value, list):
            raise WrongError(f"expected a list, found {spoken(value)}")
        return tuple(_read(item, each, place.at(index)) for index, each in enumerate(value))

    return kind


def some_of(item: Kind[T]) -> Kind[tuple[T, ...]]:
    """A list that is not empty."""
    any_of = list_of(item)

    def kind(value: Any, place: Place) -> tuple[T, ...]:
        return any_of(value, place) if value != [] else _fail("an empty list checks nothing; name at least one")

    return kind


def table_of(item: Kind[T], key: Kind[str] = text) -> Kind[dict[str, T]]:
    """A table with any number of keys of one kind."""

    def kind(value: Any, place: Place) -> dict[str, T]:
        if not isinstance(value, Mapping):
            raise WrongError(f"expected a table, found {spoken(value)}")
        return {_read(key, k, place.at(k)): _read(item, each, place.at(k)) for k, each in value.items()}

    return kind


def object_of(cls: type[T]) -> Kind[T]:
    """A table that holds the settings of a class; its field `line`, if it has one, tells where it stands."""

    def kind(value: Any, place: Place) -> T:
        given: dict[str, Any] = {"line": place.line} if "line" in cls.__dict__ else {}
        return read(cls, value, place, **given)  # type: ignore[return-value]  # None was reported

    return kind


def _variable(value: Any, place: Place) -> str | None:
    if value is False:
        return None
    if not isinstance(value, str):
        written = str(value).lower() if isinstance(value, bool) else str(value)
        raise WrongError(f'the value of a variable is text: write "{written}", or false to unset it')
    return value


#: Environment variables: text, or false to take one away.
variables = table_of(_variable, matching(r"[^=\x00]+", "the name of a variable"))


def _owned(value: Any, place: Place) -> str:
    name = module(value, place)
    place.document.owned.setdefault(name, []).append(place)
    return name


owners: Kind[dict[str, tuple[str, ...]]] = table_of(list_of(_owned), one_of(*OWNERS))


def _stand_in(value: Any, place: Place) -> str | None:
    if isinstance(value, bool):
        return "" if value else None
    return module(value, place)


_adapters = table_of(_stand_in, module)
_plain = list_of(module)


def stand_ins(value: Any, place: Place) -> dict[str, str | None]:
    """Modules that are replaced -> what is executed in the place of each: "" for names alone, None to replace none."""
    if isinstance(value, Mapping):
        return _adapters(value, place)
    return dict.fromkeys(_plain(value, place), "")


levels: Kind[dict[str, Level]] = table_of(one_of("error", "warn", "off"), one_of(*SEVERITY))


def machine(value: Any, place: Place) -> Machine:
    """The machine of this name, variants such as mi355x+aiter too."""
    try:
        return machines.resolve(text(value, place), place.document.machine_files)
    except UnknownMachineError as error:
        raise WrongError(str(error)) from None
    except MachineError as error:
        # Not this name's fault: a file with machines cannot be used, and that is told once.
        place.document.problems += [Problem(p.origin, p.line, "", p.message) for p in error.problems]
        return HERE


def machine_files(value: Any, place: Place) -> tuple[str, ...]:
    """Files and folders with machines of the user's. Machines are known by them from here on."""
    # What is not there was told: the others may still know a machine.
    files = tuple(file for file in list_of(existing)(value, place) if file is not None)
    try:
        machines.names(files)
    except MachineError as error:
        place.document.problems += [Problem(p.origin, p.line, "", p.message) for p in error.problems]
    place.document.machine_files = files
    return files


def existing(value: Any, place: Place) -> str:
    """A file or folder, relative to the configuration's folder; absolute afterwards."""
    found = os.path.normpath(place.root / text(value, place))
    return found if os.path.exists(found) else _fail(f"there is no {value!r} in {place.root}")


def folder(value: Any, place: Place) -> str:
    """A folder, relative to the configuration's; absolute afterwards."""
    found = existing(value, place)
    return found if os.path.isdir(found) else _fail(f"{value!r} is a file, not a folder")


def file(value: Any, place: Place) -> str:
    """A file that may be missing, in a folder that is there; absolute afterwards."""
    found = os.path.normpath(place.root / text(value, place))
    if os.path.isdir(found):
        raise WrongError(f"{value!r} is a folder; name a file in it")
    parent = os.path.dirname(found)
    return found if os.path.isdir(parent) else _fail(f"there is no folder {parent!r}; make it first")


def interpreter(value: Any, place: Place) -> str:
    """A Python, by name on PATH or by a path relative to the configuration's folder; absolute afterwards."""
    word = text(value, place)
    found = shutil.which(os.path.normpath(place.root / word) if os.sep in word else word)
    return os.path.abspath(found) if found else _fail(f"there is no interpreter {word!r} that can be executed")


def regular_expression(value: Any, place: Place) -> str:
    try:
        re.compile(text(value, place))
    except re.error as error:
        raise WrongError(f"{value!r} is no regular expression: {error}") from None
    return str(value)
