"""Which files a process reads, and in which folders it looks: what a check's answer may depend on.

`import`, `open` and their like raise audit events, whoever asks; `os.stat` and `os.readlink` raise none, so a file that
is looked for and not opened is seen by its folder alone, where that was listed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import HERE

#: What the kernel makes up: never the same twice, and faked where it matters.
_MADE_UP = ("/proc/", "/sys/", "/dev/")
_MEMORY = "/dev/shm/"

#: Stands among the paths for something that was read and has no name here: by a descriptor, or relative to one.
NAMELESS = "/?"

#: Behind a folder whose names the subject asked for; the import system asks for those that it could import alone.
ALL_NAMES = "/*"

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
        """End the list and give it: absolute paths, those of folders with "/" or ALL_NAMES at their end; NAMELESS."""
        found, self._now = self._now or {}, None
        return tuple(found)

    def handlers(self) -> dict[str, Handler]:
        """Handlers of the audit events that tell of reads. Nothing that a subject can replace is called."""
        getcwd, decode, text, raw, number, nothing = os.getcwd, os.fsdecode, str, bytes, int, type(None)
        write_only, access = os.O_WRONLY, os.O_ACCMODE
        made_up, memory, anything, kind = _MADE_UP, _MEMORY, Exception, type
        frame, nameless, all_names, here = sys._getframe, NAMELESS, ALL_NAMES, HERE

        def take(path: Any, end: str = "") -> None:
            seen = self._now
            if seen is None or kind(path) is nothing:
                return
            try:
                # A class of the subject's own gives its plain text or bytes here.
                path = text.__str__(path) if isinstance(path, text) else decode(path)
                if path[:1] != "/":
                    path = f"{getcwd()}/{path}" if path else getcwd()
                if not path.startswith(made_up) or path.startswith(memory):
                    seen[path + end] = None
            except anything:
                seen[nameless] = None

        def opened(args: tuple[Any, ...]) -> None:
            path, mode, flags = args
            if kind(path) is number or (kind(flags) is number and flags & access == write_only):
                return  # what a descriptor stands for was opened before
            if mode is None and kind(path) in (text, raw) and path[:1] not in ("/", b"/") and self._now is not None:
                self._now[nameless] = None  # os.open, which may have been given a folder's descriptor
            take(path)

        def imported(args: tuple[Any, ...]) -> None:
            take(args[1])

        def listed(args: tuple[Any, ...]) -> None:
            if kind(args[0]) is number:
                if self._now is not None:
                    self._now[nameless] = None
                return
            # Above this function and the hook that called it; a fake may stand between.
            asker: Any = frame(2)
            while asker is not None and asker.f_code.co_filename.startswith(here):
                asker = asker.f_back
            by_import = asker is not None and asker.f_code.co_filename[:18] == "<frozen importlib."
            take("." if args[0] is None else args[0], "/" if by_import else all_names)

        def by_name(args: tuple[Any, ...]) -> None:
            if kind(args[0]) is not text or "/" in args[0]:  # a bare name is looked for by the loader of libraries
                take(args[0])

        def database(args: tuple[Any, ...]) -> None:
            take(args[0])

        return {
            "open": opened,
            "import": imported,
            "os.listdir": listed,
            "os.scandir": listed,
            "ctypes.dlopen": by_name,
            "sqlite3.connect": database,
        }


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
