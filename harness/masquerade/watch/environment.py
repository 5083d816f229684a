"""Environment variables that an import changes: they leak into every later child process."""

from __future__ import annotations

import os
from binascii import crc32
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder


def handlers(recorder: Recorder) -> dict[str, Handler]:
    """Handlers that note `env-mutation` when a variable's value really changes.

    `before` and `after` are checksums, null for unset: enough to tell a value that was put back, and no secret.
    """
    note, decode, checksum = recorder.note, os.fsdecode, crc32
    now: dict[bytes, bytes] = dict(os.environb)

    def told(key: bytes, after: bytes | None) -> None:
        before = now.get(key)
        if before == after:
            return
        if after is None:
            now.pop(key, None)
        else:
            now[key] = after
        was, will = (None if value is None else checksum(value) for value in (before, after))
        note("env-mutation", decode(key), before=was, after=will)

    def put(args: tuple[Any, ...]) -> None:
        told(args[0], args[1])

    def unset(args: tuple[Any, ...]) -> None:
        told(args[0], None)

    return {"os.putenv": put, "os.unsetenv": unset}
