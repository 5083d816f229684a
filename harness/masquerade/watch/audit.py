"""One audit hook for all watchers that listen to the interpreter: an audit hook cannot be taken away again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[[tuple[Any, ...]], None]


def listen(*watchers: Mapping[str, Handler]) -> None:
    """Call `handlers[event](args)` of each watcher for each audit event of that name, in the order of the watchers.

    A handler must not raise: it would stop the subject.
    """
    handlers: dict[str, tuple[Handler, ...]] = {}
    for watcher in watchers:
        for event, handler in watcher.items():
            handlers[event] = (*handlers.get(event, ()), handler)
    get = handlers.get

    def hook(event: str, args: tuple[Any, ...]) -> None:
        found = get(event)
        if found is not None:
            for handler in found:
                handler(args)

    sys.addaudithook(hook)
