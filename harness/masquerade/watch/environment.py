"""Environment variables that an import changes: they leak into every later child process."""

from __future__ import annotations

import os
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder


def handlers(recorder: Recorder) -> dict[str, Handler]:
    """Handlers that note `env-mutation` when a variable's value really changes."""
    note, decode = recorder.note, os.fsdecode
    now: dict[bytes, bytes] = dict(os.environb)

    def put(args: tuple[Any, ...]) -> None:
        key, value = args[0], args[1]
        if now.get(key) != value:
            now[key] = value
            note("env-mutation", decode(key))

    def unset(args: tuple[Any, ...]) -> None:
        if now.pop(args[0], None) is not None:
            note("env-mutation", decode(args[0]))

    return {"os.putenv": put, "os.unsetenv": unset}
