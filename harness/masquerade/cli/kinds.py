"""Parameter types of the command line: each turns one word into a value, or says what is wrong with it."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # takes no parameter in older releases of click

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def meant(word: str, known: Iterable[str]) -> str:
    """The end of an error: the names near `word`, or all that there are."""
    from masquerade.machines.errors import nearest

    names = list(known)
    close = nearest(word, names)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"


def words(text: str) -> list[str]:
    """The words of a list that is separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


class Level(ParamType):
    """KIND=error|warn|off -> (kind, level)."""

    name = "KIND=LEVEL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        from masquerade.stage.record import SEVERITY

        kind, equals, level = value.partition("=")
        if not equals:
            self.fail(f"{value!r} has no '='; write KIND=error, KIND=warn or KIND=off", param, ctx)
        if kind not in SEVERITY:
            self.fail(f"{kind!r} is no kind of finding; {meant(kind, SEVERITY)}", param, ctx)
        if level not in ("error", "warn", "off"):
            self.fail(f"{level!r} is no level; known: error, warn, off", param, ctx)
        return kind, level


class Owner(ParamType):
    """PLATFORM=MODULE,MODULE -> (platform, modules)."""

    name = "PLATFORM=MODULE,..."

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        from masquerade.machines.owners import OWNERS

        platform, _, listed = value.partition("=")
        if platform not in OWNERS:
            self.fail(f"{platform!r} is no platform; {meant(platform, OWNERS)}", param, ctx)
        modules = tuple(words(listed))
        if not modules:
            self.fail(
                f"{value!r} names no module; write {platform}=PACKAGE or {platform}=PACKAGE,OTHER.MODULE", param, ctx
            )
        for module in modules:
            if not _MODULE.fullmatch(module):
                self.fail(f"{module!r} is no module name; write it with dots, like aiter.ops", param, ctx)
        return platform, modules


class Packages(ParamType):
    """PKG,PKG -> names of top-level packages."""

    name = "PKG,..."

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        packages = tuple(words(value))
        for package in packages:
            if not _MODULE.fullmatch(package):
                self.fail(f"{package!r} is no name of a package that Python can import", param, ctx)
        return packages or self.fail("names no package", param, ctx)


class StandIns(ParamType):
    """MODULE[=OTHER],... -> (module, other or "") of each."""

    name = "MODULE[=OTHER],..."

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, str], ...]:
        listed = [word.partition("=") for word in words(value)]
        for module, equals, other in listed:
            for name in (module, other) if equals else (module,):
                if not _MODULE.fullmatch(name):
                    self.fail(f"{name!r} is no module name; write it with dots, like pkg._C", param, ctx)
        return tuple((module, other) for module, _, other in listed) or self.fail("names no module", param, ctx)


class Function(ParamType):
    """MOD:FUNC -> as it stands."""

    name = "MOD:FUNC"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        module, _, function = value.partition(":")
        if not (_MODULE.fullmatch(module) and _MODULE.fullmatch(function)):
            self.fail(f"{value!r} is no function; write module and function, like pkg.mod:func", param, ctx)
        return value


class Variable(ParamType):
    """NAME=VALUE -> (name, value)."""

    name = "NAME=VALUE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not NAME=VALUE; to take a variable away use --unset NAME", param, ctx)
        return name, text


class VariableName(ParamType):
    """NAME of an environment variable."""

    name = "NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value and "=" not in value else self.fail(f"{value!r} is no name of a variable", param, ctx)


class Seconds(ParamType):
    """A finite time in seconds: positive, or with `zero` not negative."""

    name = "SECONDS"

    def __init__(self, *, zero: bool = False) -> None:
        self.zero = zero

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not self.zero):
            self.fail(
                f"{value} is no time to wait; give {'0 or more' if self.zero else 'more than 0'} seconds", param, ctx
            )
        return seconds


class Directory(ParamType):
    """A directory that is there -> its absolute path, links kept as they are."""

    name = "DIR"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not os.path.isdir(value):
            missing = "is a file, not a directory" if os.path.exists(value) else "does not exist"
            self.fail(f"directory {value!r} {missing}", param, ctx)
        try:
            return os.path.abspath(value)
        except FileNotFoundError:
            self.fail(f"directory {value!r} cannot be named: the working directory is gone", param, ctx)


class Interpreter(ParamType):
    """A Python, by path or by name on PATH -> its absolute path. Links stay: one may be a virtual environment's."""

    name = "PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if Path(value).is_dir():
            inside = next((p for p in ("bin/python", "Scripts/python.exe") if (Path(value) / p).exists()), None)
            hint = f"; did you mean {Path(value) / inside}?" if inside else ""
            self.fail(f"{value!r} is a directory, not a Python interpreter{hint}", param, ctx)
        found = shutil.which(value)
        if found is None:
            reason = "cannot be executed" if os.path.exists(value) else "is not there"
            self.fail(f"Python interpreter {value!r} {reason}", param, ctx)
        return os.path.abspath(found)
