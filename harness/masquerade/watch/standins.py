"""Stand-ins that were executed: a report names them, so that nobody takes them for the real thing."""

from __future__ import annotations

from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder


def handlers(recorder: Recorder) -> dict[str, Handler]:
    """A handler that notes each stand-in. The fakes raise the audit event, with the module's name."""
    note, string = recorder.note, str

    def executed(args: tuple[Any, ...]) -> None:
        if args and type(args[0]) is string:
            note("stand-in", args[0])

    return {"masquerade.stand-in": executed}
