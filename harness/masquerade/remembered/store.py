"""The file that results are kept in: one SQLite database, which several runs may use at a time."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from masquerade.remembered.contents import Seen

#: Changes with the layout of the file: one of another layout is not read.
_LAYOUT = 2

#: Days that a result stays without being asked for.
_DAYS = 14

#: Results written at a time; what is not written yet is lost with an interrupted run.
_AT_A_TIME = 200

#: `sets` of a result are the names of its sets, one behind the other.
_TABLES = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size, modified, changed, inode, digest) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sets (name BLOB PRIMARY KEY, made TEXT, paths BLOB, used INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, sets BLOB, record BLOB, used INTEGER) WITHOUT ROWID;
"""

#: Bytes of the name of a set: a digest of its paths and of what they held.
_NAME = 16


class Paths(NamedTuple):
    """A set of paths, and the digest of what they held."""

    made: str
    paths: tuple[str, ...]

    @property
    def name(self) -> bytes:
        """What it is kept under."""
        text = "\n".join((self.made, *self.paths))
        return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_NAME).digest()


class Row(NamedTuple):
    """A result: its key, the names of the sets that it read, and the record as JSON."""

    key: str
    sets: tuple[bytes, ...]
    record: dict[str, Any]


def private(folder: Path, file: Path) -> None:
    """Make both for this user alone. What is there must be the user's, and nobody else's to write.

    Raises PermissionError naming the place and the mend: what another user wrote could say ok of anything.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _own(folder, folder.stat())
    # SQLite gives the files beside it the same mode.
    held = os.open(file, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _own(file, os.fstat(held))
        os.fchmod(held, 0o600)
    finally:
        os.close(held)


def _own(place: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{place.name} belongs to another user, uid {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others may write to {place.name}, which `chmod go-w` ends")


class Store:
    """Raises sqlite3.Error or OSError where the file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.file = file_in(folder)
        private(folder, self.file)
        self._db = sqlite3.connect(self.file, timeout=30.0, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_TABLES)
        self._day = int(time.time() // 86400)
        self._rows: list[Row] = []
        self._sets: dict[bytes, Paths] = {}

    def files(self) -> dict[str, tuple[Seen, str]]:
        rows = self._db.execute("SELECT path, size, modified, changed, inode, digest FROM files")
        return {path: (Seen(*look), made) for path, *look, made in rows}

    def results(self, keys: Iterable[str]) -> dict[str, Row]:
        """The results that are there, by key. One that cannot be read is none."""
        wanted, found = list(keys), {}
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            marks = ",".join("?" * len(some))
            for key, sets, record in self._db.execute(
                f"SELECT key, sets, record FROM results WHERE key IN ({marks})", some
            ):
                with suppress(ValueError, zlib.error, TypeError):
                    names = tuple(sets[start : start + _NAME] for start in range(0, len(sets), _NAME))
                    found[key] = Row(key, names, json.loads(zlib.decompress(record)))
        return found

    def paths(self, name: bytes) -> Paths | None:
        """A set; None for one that is not there."""
        row = self._db.execute("SELECT made, paths FROM sets WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        return Paths(row[0], tuple(zlib.decompress(row[1]).decode("utf-8", "surrogateescape").split("\n")))

    def add(self, row: Row, sets: Mapping[bytes, Paths]) -> None:
        """Keep a result, with the sets that it names."""
        self._rows.append(row)
        self._sets.update(sets)
        if len(self._rows) >= _AT_A_TIME:
            self.write()

    def write(self) -> None:
        """Write what was added."""
        rows, self._rows = self._rows, []
        sets, self._sets = self._sets, {}
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT OR REPLACE INTO sets VALUES (?, ?, ?, ?)",
                ((name, one.made, zlib.compress("\n".join(one.paths).encode("utf-8", "surrogateescape"), 1), self._day)
                 for name, one in sets.items()),
            )  # fmt: skip
            self._db.executemany(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)",
                ((row.key, b"".join(row.sets), zlib.compress(json.dumps(row.record).encode(), 1), self._day)
                 for row in rows),
            )  # fmt: skip

    def close(self, files: Mapping[str, tuple[Seen, str]], used: Iterable[Row]) -> None:
        """Write everything, the digests of `files` too; results that nobody asked for lately go, those `used` stay."""
        try:
            self.write()
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                    ((path, *look, made) for path, (look, made) in files.items()),
                )
                rows = list(used)
                self._db.executemany("UPDATE results SET used = ? WHERE key = ?", ((self._day, r.key) for r in rows))
                names = {name for row in rows for name in row.sets}
                self._db.executemany("UPDATE sets SET used = ? WHERE name = ?", ((self._day, n) for n in names))
                for table in ("results", "sets"):
                    self._db.execute(f"DELETE FROM {table} WHERE used < ?", (self._day - _DAYS,))
        finally:
            self._db.close()


def file_in(folder: Path) -> Path:
    """The file of the results in a folder."""
    return folder / f"results-{_LAYOUT}.sqlite"
