"""Which files a process reads, and in which folders it looks: what a check's answer may depend on.

`import` and `open` raise audit events, whoever asks; `os.stat` raises none, so a file that is looked for and not
opened is seen by its folder alone, where that was listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from masquerade.watch.audit import Handler

#: What the kernel makes up: never the same twice, and faked where it matters.
_MADE_UP = ("/proc/", "/sys/", "/dev/")

#: Folder -> the names in it that were read; "" for the list of its names.
Told = dict[str, list[str]]


class Reads:
    """Takes down what this process reads, while it is on."""

    def __init__(self) -> None:
        self._now: dict[str, None] | None = None

    def start(self) -> None:
        """Begin a new list."""
        self._now = {}

    def stop(self) -> tuple[str, ...]:
        """End the list and give it: absolute paths, those of folders with a slash at their end."""
        found, self._now = self._now or {}, None
        return tuple(found)

    def handlers(self) -> dict[str, Handler]:
        """Handlers of the audit events that tell of reads. Nothing that a subject can replace is called."""
        getcwd, decode, text, raw, number = os.getcwd, os.fsdecode, str, bytes, int
        write_only, access = os.O_WRONLY, os.O_ACCMODE
        made_up, anything, kind = _MADE_UP, Exception, type

        def take(path: Any, end: str = "") -> None:
            seen = self._now
            if seen is None:
                return
            try:
                if kind(path) is raw:
                    path = decode(path)
                if kind(path) is not text:
                    return
                if path[:1] != "/":
                    path = f"{getcwd()}/{path}" if path else getcwd()
                if not path.startswith(made_up):
                    seen[path + end] = None
            except anything:
                return

        def opened(args: tuple[Any, ...]) -> None:
            flags = args[2]
            if kind(flags) is not number or flags & access != write_only:
                take(args[0])

        def imported(args: tuple[Any, ...]) -> None:
            take(args[1])

        def listed(args: tuple[Any, ...]) -> None:
            take("." if args[0] is None else args[0], "/")

        return {"open": opened, "import": imported, "os.listdir": listed, "os.scandir": listed}


def packed(paths: Iterable[str]) -> Told:
    """Paths by folder, which takes a third of the room."""
    out: Told = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        names = out.get(folder)
        if names is None:
            names = out[folder] = []
        names.append(name)
    return out


def unpacked(told: Any) -> tuple[str, ...]:
    """The paths of a reply, which a subject may have spoilt: what is no path is left out."""
    if not isinstance(told, dict):
        return ()
    rows = ((folder, names) for folder, names in told.items() if isinstance(names, list))
    return tuple(f"{folder}/{name}" for folder, names in rows for name in names if isinstance(name, str))
