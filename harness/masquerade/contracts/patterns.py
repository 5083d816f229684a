"""Patterns of module names: `pkg` with all below it, `pkg.*` for one level, `pkg.**` for all levels below."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from masquerade.contracts.kinds import matching
from masquerade.contracts.settings import Place, WrongError

_COMPONENT = r"(?:[^\W\d]|[*?])[\w*?]*"

#: A pattern that picks among modules which were found already.
loose = matching(rf"{_COMPONENT}(\.{_COMPONENT})*", "a module name with dots, which may hold * and **")


def rooted(value: Any, place: Place) -> str:
    """A pattern that begins with a package's name: the modules are looked for there."""
    if not root(loose(value, place)):
        raise WrongError(f"{value!r} must begin with the name of a package, as pkg.* does")
    return str(value)


def root(pattern: str) -> str:
    """The package in which the modules of a pattern are looked for: the components before the first wildcard."""
    plain: list[str] = []
    for component in pattern.split("."):
        if "*" in component or "?" in component:
            break
        plain.append(component)
    return ".".join(plain)


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression that a name must match as a whole. A name without wildcards stands for all below it too."""
    if root(pattern) == pattern:
        return re.compile(rf"{re.escape(pattern)}(\.\w+)*")
    out = ""
    for position, component in enumerate(pattern.split(".")):
        dot = r"\." if position else ""
        plain = re.escape(component).replace(r"\*", r"\w*").replace(r"\?", r"\w")
        levels = r"\w+(\.\w+)*"
        out += dot + (levels if component == "**" else plain)
    return re.compile(out)


def select(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in their order."""
    expression = compiled(pattern)
    return [name for name in names if expression.fullmatch(name)]
