"""A scan that takes from earlier ones what cannot have changed, and keeps what it finds anew."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from masquerade.remembered.conditions import surroundings
from masquerade.remembered.contents import Contents, dependencies, digest, listing
from masquerade.remembered.store import Paths, Row, Store, file_in
from masquerade.report.reading import ReportError, record_of
from masquerade.stage.check import Check
from masquerade.stage.record import Record
from masquerade.watch.reads import NAMELESS

#: The folder of the results; nothing is kept without it.
VARIABLE = "MASQUERADE_CACHE"

#: How a check may end and be a matter of the moment: another time it may end otherwise.
_PASSING = frozenset({"timeout", "crash", "exit", "subprocess"})


class Scanner(Protocol):
    """What makes checks; a stage."""

    reads: bool

    @property
    def facts(self) -> dict[str, Any]: ...

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]: ...


def folder() -> Path | None:
    """Where results are kept; None for nowhere."""
    said = os.environ.get(VARIABLE, "off")
    return Path(said) if said not in ("", "off") else None


class Memory:
    """Results of earlier scans, for one run. Without a store it knows nothing and keeps nothing."""

    def __init__(self, store: Store | None, why: str = "") -> None:
        self.store = store
        #: Why there is no store, though one was wanted.
        self.why = why
        #: Results that were taken from earlier runs.
        self.recalled: list[Row] = []

    def told(self) -> list[str]:
        """What the reader of a report should know of it."""
        count = len(self.recalled)
        recalled = (
            f"{count} of the results {'is' if count == 1 else 'are'} those of an earlier scan, since nothing that "
        )
        recalled += f"{'its check' if count == 1 else 'their checks'} read has changed; --no-cache makes all anew"
        return [*([recalled] if count else []), *([self.why] if self.why else [])]

    def scan(self, stage: Scanner, checks: Sequence[Check]) -> Iterator[Record]:
        """As `stage.scan`, and first what need not be made anew."""
        store = self.store
        if store is None:
            yield from stage.scan(checks)
            return
        stage.reads = True
        started = time.time_ns()
        try:
            contents = Contents(store.files())
        except (sqlite3.Error, TypeError, ValueError) as error:
            self.store, self.why = None, _spoilt(store.file, error)
            stage.reads = False
            yield from stage.scan(checks)
            return
        keeper = _Keeper(store, contents, surroundings(stage.facts, contents), started)
        try:
            keys = {check.id: keeper.key(check) for check in checks}
            known = store.results(key for key in keys.values() if key)
            left = []
            for check in checks:
                row = known.get(keys[check.id])
                record = keeper.recall(check, row) if row is not None else None
                if row is None or record is None:
                    left.append(check)
                else:
                    self.recalled.append(row)
                    yield record
            by_id = {check.id: check for check in left}
            for record in stage.scan(left):
                check = by_id[record.id]
                keeper.keep(keys[check.id], check, record)
                yield record
        finally:
            try:
                store.close(contents.fresh, self.recalled)
            except sqlite3.Error as error:
                self.why = f"results could not be kept in {store.file}: {error}"


class _Keeper:
    """Knows which results still hold, and which may be kept."""

    def __init__(self, store: Store, contents: Contents, surroundings: str, started: int) -> None:
        self.store, self.contents, self.surroundings, self.started = store, contents, surroundings, started
        self._signatures: dict[str, str] = {}
        self._holding: dict[bytes, bool] = {}
        self._kept: dict[tuple[str, ...], _Kept] = {}

    def key(self, check: Check) -> str:
        """The key of a check's result; "" for one that is never kept: a call, or a check of the machine here."""
        if check.action != "import" or check.machine.platform == "here" or check.measure:
            return ""
        signature = check.signature()
        shared = self._signatures.get(signature)
        if shared is None:
            roots = "".join(f"{folder}\0{listing(folder)}\0" for folder in map(os.path.abspath, check.path))
            shared = self._signatures[signature] = digest(
                f"{self.surroundings}\n{signature}\n{roots}".encode("utf-8", "surrogateescape")
            )
        return digest(f"{shared}\n{check.id}\n{check.subject}".encode())

    def recall(self, check: Check, row: Row) -> Record | None:
        """The record of a row, if everything that it read is as it was."""
        try:
            if not row.sets or not all(map(self._holds, row.sets)):
                return None
            return record_of(row.record, dict(check.levels))
        except (ReportError, KeyError, TypeError, ValueError, AttributeError, sqlite3.Error, zlib.error):
            return None  # a row that cannot be read is none

    def _holds(self, name: bytes) -> bool:
        found = self._holding.get(name)
        if found is None:
            kept = self.store.paths(name)
            known = kept if kept is not None and kept.paths and kept.name == name else None
            found = self._holding[name] = known is not None and self.contents.together(known.paths) == known.made
        return found

    def keep(self, key: str, check: Check, record: Record) -> None:
        """Keep a result, unless it may come out otherwise the next time."""
        if not key or record.reads is None or any(finding.kind in _PASSING for finding in record.findings):
            return
        parts = [self._part(paths) for paths in record.reads if paths]
        if record.notes or not parts or not all(part.lasts for part in parts):
            return
        row = Row(key, tuple(part.name for part in parts), record.to_json())
        self.store.add(row, {part.name: part.paths for part in parts})

    def _part(self, read: tuple[str, ...]) -> _Kept:
        """A set of paths as it is kept."""
        found = self._kept.get(read)
        if found is None:
            lasts = NAMELESS not in read and all(map(_plain, read))
            paths = tuple(dependencies(read)) if lasts else ()
            made = Paths(self.contents.together(paths), paths)
            # What was edited while the scan ran may have been executed with another content.
            lasts = lasts and not self.contents.newer_than(self.started, paths)
            found = self._kept[read] = _Kept(made.name, made, lasts)
        return found


class _Kept(NamedTuple):
    """A set of paths with its name, and whether it may stand for what a check read."""

    name: bytes
    paths: Paths
    lasts: bool


def _plain(path: str) -> bool:
    """Whether a path is text that a database holds, and not one of bytes that are none."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_memory(wanted: bool = True) -> Memory:
    """The results that are kept on this host; none where they are not wanted, or cannot be read."""
    place = folder() if wanted else None
    if place is None:
        return Memory(None)
    try:
        return Memory(Store(place))
    except (sqlite3.OperationalError, OSError) as error:
        return Memory(
            None, f"results of earlier scans cannot be used, {place}: {error}; {VARIABLE}=DIR puts them elsewhere"
        )
    except sqlite3.Error as error:
        return Memory(None, _spoilt(file_in(place), error))


def _spoilt(file: Path, error: Exception) -> str:
    return f"{file} holds no results: {error}; delete it, and it is made anew"
