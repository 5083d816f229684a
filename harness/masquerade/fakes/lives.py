"""The process that a faked driver was started in. A fork poisons it as it does a real one; the stage's own does not."""

from __future__ import annotations

from collections.abc import Callable

_followers: list[Callable[[int, int], None]] = []


def follow(moved: Callable[[int, int], None]) -> None:
    """Have `moved(old, new)` called when process `new` takes the place of `old` in the middle of a check."""
    _followers.append(moved)


def move(old: int, new: int) -> None:
    """Let what lived in process `old` live in `new`."""
    for moved in _followers:
        moved(old, new)
