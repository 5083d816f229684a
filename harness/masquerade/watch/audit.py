"""One audit hook for all watchers that listen to the interpreter: an audit hook cannot be taken away again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[[tuple[Any, ...]], None]


def listen(handlers: Mapping[str, Handler]) -> None:
    """Call `handlers[event](args)` for each audit event of that name.

    A handler must not raise: it would stop the subject.
    """
    get = dict(handlers).get

    def hook(event: str, args: tuple[Any, ...]) -> None:
        handler = get(event)
        if handler is not None:
            handler(args)

    sys.addaudithook(hook)
