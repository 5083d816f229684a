"""Exit functions: what they do is blamed on the line that registered them, where they are no code of the subject's."""

from __future__ import annotations

import atexit
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from masquerade.watch.recorder import Recorder


class _Followed:
    """An exit function with the stack that registered it. It equals the function: `atexit.unregister` finds it."""

    def __init__(self, function: Callable[..., Any], origin: list[Any], origins: dict[int, list[Any]]) -> None:
        self.function, self.origin, self.origins = function, origin, origins

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        me, origins = get_ident(), self.origins
        origins[me] = self.origin
        try:
            return self.function(*args, **kwargs)
        finally:
            origins.pop(me, None)

    def __eq__(self, other: object) -> bool:
        return bool(self.function == other)

    def __hash__(self) -> int:
        return hash(self.function)


def install(recorder: Recorder) -> None:
    """Follow what is registered from now on."""
    register, here, origins = atexit.register, recorder.here, recorder.origins

    def followed(func: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not callable(func):
            return register(func, *args, **kwargs)
        register(_Followed(func, here(), origins), *args, **kwargs)
        return func

    followed.__name__ = followed.__qualname__ = "register"
    atexit.register = followed
