"""One cell of a golden table: a backend's name, a JSON value, `!ValueError` for an exception, `?` for no answer yet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MISSING = "?"

#: Whether two cells of a column say the same: (column, one, other).
Same = Callable[[str, str, str], bool]

#: A text that may stand without quotes, unless it reads as JSON.
_BARE = re.compile(r'\w([^"|\\]*[^\s"|\\])?')


def name(text: str) -> str:
    """The cell of an answer that is a text."""
    bare = _BARE.fullmatch(text) and text.isprintable() and _loaded(text) is None
    return text if bare else value(text)


def value(answer: Any) -> str:
    """The cell of an answer that is any value of JSON; what a reader could not see is escaped."""
    text = json.dumps(answer, ensure_ascii=False)
    return (text if text.isprintable() else json.dumps(answer)).replace("|", "\\u007c")


def raised(exception: str) -> str:
    return f"!{exception}"


def plain(cell: str) -> str:
    """The text that a cell stands for; the cell itself where it stands for something else."""
    found = _loaded(cell)
    return found[0] if found and isinstance(found[0], str) else cell


def same(one: str, other: str) -> bool:
    """Whether two cells say the same: `[false,0]` is `[false, 0]`, a name may stand in quotes, and true is no name."""
    return one == other or _meaning(one) == _meaning(other)


def same_in(column: str, one: str, other: str) -> bool:
    """`same`, in whichever column."""
    return same(one, other)


def _meaning(cell: str) -> str:
    if cell == MISSING or cell.startswith("!"):
        return cell
    found = _loaded(cell)
    return value(found[0]) if found else value(cell)


def _loaded(cell: str) -> tuple[Any] | None:
    """What a cell holds if it is JSON."""
    try:
        return (json.loads(cell),)
    except (ValueError, RecursionError):
        return None
