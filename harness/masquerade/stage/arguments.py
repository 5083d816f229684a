"""Arguments of a call, as far as they must travel to the child as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Levels of lists and mappings in one argument; what holds itself has no end of them.
_DEPTH = 100


def require_json(subject: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises ValueError that names the first argument which JSON cannot hold. A tuple arrives as a list."""
    named = [(f"args[{place}]", value) for place, value in enumerate(args)]
    named += [(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
    for name, why in (("kwargs", _key(kwargs)), *((name, _unfit(value)) for name, value in named)):
        if why:
            raise ValueError(f"{name} of {subject} {why}; let a factory make it in the child")


def _unfit(value: Any, depth: int = 0) -> str:
    """Why JSON cannot hold `value` as it is; "" where it can."""
    if value is None or isinstance(value, (str, int, float)):
        return ""
    if not isinstance(value, (list, tuple, dict)):
        return f"holds a value of type {type(value).__name__}, which JSON cannot"
    if depth >= _DEPTH:
        return "is nested too deep, or holds itself"
    whys = (_unfit(inner, depth + 1) for inner in (value.values() if isinstance(value, dict) else value))
    return (_key(value) if isinstance(value, dict) else "") or next(filter(None, whys), "")


def _key(mapping: Mapping[Any, Any]) -> str:
    """Why the keys of `mapping` are none of JSON's: it would hold another text in their place."""
    odd = [key for key in mapping if not isinstance(key, str)]
    return f"has the key {odd[0]!r}: JSON has keys of text alone" if odd else ""
