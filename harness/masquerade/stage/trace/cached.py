"""What functools caches, of which each use is seen: a cached answer hides what the function did for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

_made_in_c: Any = functools._lru_cache_wrapper


class _Kind(type):
    """What C makes and what is made here are both cached functions."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _made_in_c) or getattr(value, "__code__", None) is CODE


class CachedFunction(metaclass=_Kind):
    """In the place of functools._lru_cache_wrapper. `called` is given the cached function at each of its calls."""

    called: Callable[[Any], None] = staticmethod(lambda cached: None)

    def __new__(cls, *arguments: Any) -> Any:
        """A function."""
        cached = _made_in_c(*arguments)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            cls.called(cached)
            return cached(*args, **kwargs)

        made: Any = wrapper
        made.cache_info, made.cache_clear = cached.cache_info, cached.cache_clear
        return made


#: The code of all functions that are made here.
CODE: CodeType = CachedFunction(len, 0, False, None).__code__


def install(called: Callable[[Any], None]) -> None:
    """Have functions that are cached from now on tell of their calls."""
    CachedFunction.called = staticmethod(called)
    functools._lru_cache_wrapper = CachedFunction  # type: ignore[misc]
    _cached_properties()


def _cached_properties() -> None:
    """What has `__set__` is asked before the object's own dictionary, where the value is kept."""

    def __set__(self: Any, instance: Any, value: Any) -> None:
        instance.__dict__[self.attrname] = value

    def __delete__(self: Any, instance: Any) -> None:
        if instance.__dict__.pop(self.attrname, missing) is missing:
            raise AttributeError(self.attrname)

    missing: Any = object()
    kind: Any = functools.cached_property
    kind.__set__, kind.__delete__ = __set__, __delete__
