"""Where a faked machine answers otherwise than the recorded one: one probe at a time, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: Device-touch levels, from clean to worst.
LEVELS = ("clean", "queried", "fork-poison", "device-init")

Row = Mapping[str, Any]


def level(row: Row) -> str:
    """How far a probe reached on the recorded machine: judged by torch, by a forked child, and from outside."""
    seen = [row["before"], *(step["touch"] for step in row["steps"])]
    if any(touch["initialized"] for touch in seen):
        return "device-init"
    if "re-initialize" in row.get("child", "") or _opened(seen, "nvidia-uvm", "kfd"):
        return "fork-poison"
    if _mapped(seen, "libnvidia-ml", "libamd_smi", "librocm_smi64"):
        return "queried"
    return "clean"


def _opened(seen: list[Row], *names: str) -> bool:
    return any(name in touch.get("open", ()) for touch in seen[1:] for name in names)


def _mapped(seen: list[Row], *names: str) -> bool:
    """Whether a step, not the start, brought a library."""
    return any(name in touch.get("mapped", ()) for touch in seen[1:] for name in names if name not in seen[0]["mapped"])


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
    """Whether masquerade saw what happened. An attempt counts like a success: after an error it may say more.

    A management library that is only asked is told apart from nothing at all on the fake alone, where it is a fake too.
    """
    real = LEVELS.index(level(recorded))
    failed = any("error" in step for step in recorded["steps"])
    return LEVELS.index(touch) >= real if failed else LEVELS.index(touch) == real


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
