"""The kernel launches of a check, and what a compile that did not end well says, out of the events of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from masquerade.stage.blame import Places, blamed, frames

#: What a launch tells besides its line, and of which type it must be: a child may write anything into its log.
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "target": str,
    "signature": dict,
    "constants": dict,
    "num_warps": int,
    "num_stages": int,
    "num_ctas": int,
    "shared": int,
    "shared_limit": int,
    "registers": int,
    "spills": int,
    "instructions": dict,
    "seconds": (int, float),
    "triton": str,
}


def launches(events: Iterable[Mapping[str, Any]], places: Places) -> tuple[dict[str, Any], ...]:
    """Each distinct launch once: the kernel, the line that launched it, and what it was compiled to.

    A configuration that an autotuner dropped because it does not fit is `pruned`, with the reason.
    """
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        pruned = event["kind"] in ("out-of-resources", "compile-error") and event.get("pruned") is True
        if event["kind"] != "launch" and not pruned:
            continue
        frame = blamed(frames(event.get("stack") or ()), places)
        launch: dict[str, Any] = {"kernel": event["what"], "place": _place(event.get("place"), places)}
        launch["line"] = places.line(frame).to_json() if frame else None
        launch |= {name: event[name] for name, kind in _FIELDS.items() if isinstance(event.get(name), kind)}
        launch["pruned"] = str(event.get("message", "")) if pruned else ""
        found.setdefault(repr({**launch, "seconds": 0}), launch)
    return tuple(found.values())


def _place(place: Any, places: Places) -> dict[str, Any] | None:
    """Where the kernel is defined."""
    if isinstance(place, list) and len(place) == 2 and isinstance(place[0], str) and isinstance(place[1], int):
        return {"file": places.relative(place[0]), "line": place[1]}
    return None


def compiling(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The compile that was under way when the log ended, if one was."""
    running: list[Mapping[str, Any]] = []
    for event in events:
        if event["kind"] == "compiling":
            running.append(event)
        elif event["kind"] == "compiled" and running:
            running.pop()
    return running[-1] if running else None


def compiler_message(event: Mapping[str, Any], output: str) -> str:
    """What the compiler said. Where its exception says nothing, the first error that it printed does."""
    message = str(event.get("message", ""))
    name = str(event.get("raised", ""))
    if "PassManager::run failed" in message:
        printed = re.search(r"\berror: (.+)", output)
        message = f"{printed[1][:500]} ({message})" if printed else message
    return f"{name}: {message}" if name and name != "CompilationError" else message
