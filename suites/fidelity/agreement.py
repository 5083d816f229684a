"""Where a faked machine answers otherwise than the recorded one: one probe at a time, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Device-touch levels, from clean to worst.
LEVELS = ("clean", "queried", "fork-poison", "device-init")

Row = Mapping[str, Any]


#: What a forked child meets after its parent has started the driver in Python, where torch took note of it; and in C++,
#: where the runtime or the driver fails.
NOTED, UNNOTED = ("Cannot re-initialize",), ("initialization error", "driver initialization failed")

#: Management libraries, which harm no fork.
MANAGEMENT = {"libnvidia-ml", "libamd_smi", "librocm_smi64"}


def level(row: Row) -> str:
    """How far a probe reached on the recorded machine, judged by torch, by a forked child, and from outside.

    Whether C++ that started the driver made a context too cannot be told: that is fork-poison, or more.
    """
    seen = [row["before"], *(step["touch"] for step in row["steps"])]
    if any(touch["initialized"] for touch in seen):
        return "device-init"
    if _child_met(row, *NOTED, *UNNOTED):
        return "fork-poison"
    mapped = {library for touch in seen[1:] for library in touch.get("mapped", ())}
    return "queried" if (mapped - set(seen[0].get("mapped", ()))) & MANAGEMENT else "clean"


def _child_met(row: Row, *words: str) -> bool:
    return any(word in row.get("child", "") for word in words)


def differences(recorded: Row, faked: Row, touch: str | None) -> Iterator[str]:
    """What differs in one probe. `touch` is the level that masquerade saw; None where it saw more than the probe."""
    for number, (real, fake) in enumerate(zip(recorded["steps"], faked["steps"], strict=False), 1):
        place = f"step {number}" if len(recorded["steps"]) > 1 else "answer"
        for key in ("value", "error", "message", "warnings"):
            if real.get(key) != fake.get(key):
                yield f"{place}: {key} is {_short(real.get(key))} on the machine, {_short(fake.get(key))} on the fake"
        if real["touch"]["initialized"] != fake["touch"]["initialized"]:
            yield f"{place}: is_initialized() is then {real['touch']['initialized']} on the machine alone"
    for key in ("unfinished", "child"):
        if recorded.get(key) != faked.get(key):
            yield f"{key}: {_short(recorded.get(key))} on the machine, {_short(faked.get(key))} on the fake"
    if touch is not None and not _same_touch(recorded, touch):
        yield f"touch: {level(recorded)} on the machine, {touch} seen on the fake"


def _same_touch(recorded: Row, touch: str) -> bool:
    """Whether masquerade saw what happened. An attempt counts like a success: after an error it may say more."""
    real = LEVELS.index(level(recorded))
    at_least = any("error" in step for step in recorded["steps"]) or _child_met(recorded, *UNNOTED)
    return LEVELS.index(touch) >= real if at_least else LEVELS.index(touch) == real


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
