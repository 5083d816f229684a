"""Digests of files and folders. A file is read once; then its size and times say whether it is still the same."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from masquerade.stage.folders import PREFIX
from masquerade.watch.reads import ALL_NAMES

#: Names in a folder that an import could find, or that say what is installed.
_IMPORTABLE = re.compile(r"[^\W\d]\w*|.*\.(?:py|pyc|so|pth|zip|egg|egg-link)|.*\.(?:dist|egg)-info")

_CACHED = re.compile(r"(.*/)__pycache__/([^/]+)\.[\w-]+(?:\.opt-\d)?\.pyc")

#: Where the stage puts what it makes for a run.
_OWN = os.path.join(tempfile.gettempdir(), PREFIX)

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
        if path.endswith("/__pycache__/") or path.startswith(_OWN):
            continue
        cached = _CACHED.fullmatch(path)
        if cached:
            if _never_looks_at_its_source(path):
                seen[path] = None
            path = f"{cached[1]}{cached[2]}.py"
        seen[path] = None  # as it was asked for: a link before ".." leads elsewhere
        if path.endswith(".py"):
            seen[os.path.dirname(path) + "/"] = None
    yield from seen


def _never_looks_at_its_source(bytecode: str) -> bool:
    """Whether it is found by hash and not checked, as PEP 552 has it: flags 1 of the four bytes behind the magic."""
    try:
        with open(bytecode, "rb") as file:
            return file.read(8)[4:] == b"\1\0\0\0"
    except OSError:
        return False


class Contents:
    """Digests of this moment, each made once. `known` are those of earlier runs: path -> (how it looked, digest)."""

    def __init__(self, known: dict[str, tuple[Seen, str]]) -> None:
        self._known = known
        self._now: dict[str, str] = {}
        self._young: dict[str, bool] = {}
        #: Files whose digest was made in this run.
        self.fresh: dict[str, tuple[Seen, str]] = {}

    def of(self, path: str) -> str:
        """The digest of a file, or of a folder where `path` ends with a slash or with ALL_NAMES."""
        found = self._now.get(path)
        if found is None:
            found = self._now[path] = self._made(path)
        return found

    def _made(self, path: str) -> str:
        if path.endswith(ALL_NAMES):
            return listing(path.removesuffix("*"), every=True)
        return listing(path) if path.endswith("/") else self._file(path)

    def together(self, paths: Iterable[str]) -> str:
        """One digest of many."""
        return digest("\n".join(f"{path}\0{self.of(path)}" for path in paths).encode("utf-8", "surrogateescape"))

    def newer_than(self, moment: int, paths: Iterable[str]) -> bool:
        """Whether one of the files or folders was changed after `moment`, in nanoseconds since the epoch.

        Asked after the digests were made: what changes later has another digest.
        """
        for path in paths:
            found = self._young.get(path)
            if found is None:
                found = self._young[path] = _changed_since(moment, path)
            if found:
                return True
        return False

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


def _changed_since(moment: int, path: str) -> bool:
    folder = path.removesuffix("*") if path.endswith(ALL_NAMES) else path
    look = Seen.of(folder)
    if look is None:
        # Was it there before? Then its folder has changed.
        above = Seen.of(os.path.dirname(folder.rstrip("/")) or "/")
        return above is not None and above.modified >= moment
    if not folder.endswith("/"):
        return max(look.modified, look.changed) >= moment
    if look.modified < moment:
        return False
    # A name came or went. Bytecode that the checks themselves left is no change.
    bytecode = Seen.of(folder + "__pycache__")
    if bytecode is None or bytecode.modified < moment:
        return True
    try:
        with os.scandir(folder) as entries:
            return any(e.stat(follow_symlinks=False).st_ctime_ns >= moment for e in entries if e.name != "__pycache__")
    except OSError:
        return True


def listing(folder: str, every: bool = False) -> str:
    """A digest of the names in a folder: of those that an import could find, or of all."""
    try:
        names = sorted(
            name for name in os.listdir(folder) if name != "__pycache__" and (every or _IMPORTABLE.fullmatch(name))
        )
    except OSError:
        return ABSENT
    return digest("\0".join(names).encode("utf-8", "surrogateescape"))
