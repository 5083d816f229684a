"""Environment variables that an import changed for a while and put back: nothing leaks from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def without_restored(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """`events` without the changes of variables that ended as they began. What a forked process did is left alone."""
    first: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for event in events:
        if event["kind"] == "env-mutation" and not event.get("forked") and "before" in event:
            first.setdefault(event["what"], event["before"])
            last[event["what"]] = event.get("after")
    restored = {name for name, value in last.items() if value == first[name]}
    return [
        event
        for event in events
        if event["kind"] != "env-mutation" or event.get("forked") or event["what"] not in restored
    ]
