"""Digests of files and folders. A file is read once; then its size and times say whether it is still the same."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

#: Names in a folder that an import could find, or that say what is installed.
_IMPORTABLE = re.compile(r"[^\W\d]\w*|.*\.(?:py|pyc|so|pth|zip|egg|egg-link)|.*\.(?:dist|egg)-info")

_CACHED = re.compile(r"(.*/)__pycache__/([^/]+)\.[\w-]+(?:\.opt-\d)?\.pyc")

#: Where the stage puts what it makes for a run.
_OWN = os.path.join(tempfile.gettempdir(), "masquerade-")

#: The digest of what is not there.
ABSENT = "-"


class Seen(NamedTuple):
    """What a file looked like when its digest was made."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Seen | None:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def dependencies(paths: Iterable[str]) -> Iterator[str]:
    """What a result depends on, for what was read: the source for its bytecode, and the folder around each source.

    A new file in a package may be found by an import that fell through before.
    """
    seen: dict[str, None] = {}
    for path in paths:
        cached = _CACHED.fullmatch(path)
        if cached:
            path = f"{cached[1]}{cached[2]}.py"
        if path.endswith("/__pycache__/") or path.startswith(_OWN):
            continue
        seen[os.path.normpath(path) + ("/" if path.endswith("/") else "")] = None
        if path.endswith(".py"):
            seen[os.path.dirname(os.path.normpath(path)) + "/"] = None
    yield from seen


class Contents:
    """Digests of this moment, each made once. `known` are those of earlier runs: path -> (how it looked, digest)."""

    def __init__(self, known: dict[str, tuple[Seen, str]]) -> None:
        self._known = known
        self._now: dict[str, str] = {}
        #: Files whose digest was made in this run.
        self.fresh: dict[str, tuple[Seen, str]] = {}

    def of(self, path: str) -> str:
        """The digest of a file, or of a folder where `path` ends with a slash."""
        found = self._now.get(path)
        if found is None:
            found = self._now[path] = listing(path) if path.endswith("/") else self._file(path)
        return found

    def together(self, paths: Iterable[str]) -> str:
        """One digest of many."""
        return digest("\n".join(f"{path}\0{self.of(path)}" for path in paths).encode("utf-8", "surrogateescape"))

    def newer_than(self, moment: int, paths: Iterable[str]) -> bool:
        """Whether one of the files was changed after `moment`, in nanoseconds since the epoch."""
        looks = (Seen.of(path) for path in paths if not path.endswith("/"))
        return any(max(look.modified, look.changed) >= moment for look in looks if look is not None)

    def _file(self, path: str) -> str:
        look = Seen.of(path)
        if look is None:
            return ABSENT
        before = self._known.get(path)
        if before is not None and before[0] == look:
            return before[1]
        try:
            with open(path, "rb") as file:
                made = digest(file.read())
        except OSError as error:
            return type(error).__name__
        self.fresh[path] = look, made
        return made


def listing(folder: str) -> str:
    """A digest of the names in a folder that an import could find."""
    try:
        names = sorted(name for name in os.listdir(folder) if name != "__pycache__" and _IMPORTABLE.fullmatch(name))
    except OSError:
        return ABSENT
    return digest("\0".join(names).encode("utf-8", "surrogateescape"))
