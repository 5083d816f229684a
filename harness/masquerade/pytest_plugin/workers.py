"""What the workers of pytest-xdist tell each other: records of checks, and which checks are being made."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from masquerade.stage.folders import Folder
    from masquerade.stage.record import Level, Record

#: Names the folder among what a worker is given.
_KEY = "masquerade_shared"

_FOLDER: pytest.StashKey[Folder] = pytest.StashKey()


def open_folder(config: pytest.Config, given: dict[str, Any]) -> None:
    """Put the folder of this run, which its user alone can read, among what a worker is `given`.

    Where none can be made, each worker checks for itself.
    """
    from masquerade.stage.folders import Folder

    with suppress(OSError):
        if _FOLDER not in config.stash:
            config.stash[_FOLDER] = Folder()
        given[_KEY] = config.stash[_FOLDER].path


def remove_folder(config: pytest.Config) -> None:
    """Remove the run's folder, if it has one."""
    if _FOLDER in config.stash:
        config.stash[_FOLDER].remove()


def workers(config: pytest.Config) -> int:
    """How many workers there are, where this is one: it is given tests one by one. 0 in a run without workers."""
    return int(getattr(config, "workerinput", {}).get("workercount", 0))


class Shared:
    """What is known of the checks of one configuration. Outside of a worker, or on another host, that is nothing."""

    def __init__(self, config: pytest.Config, configuration: Path) -> None:
        folder = getattr(config, "workerinput", {}).get(_KEY, "")
        self._folder = Path(folder) if folder and os.path.isdir(folder) else None
        # With --dist each every interpreter checks for itself.
        self._prefix = f"{sys.executable}\0{sys.version}\0{configuration}\0"

    def _file(self, what: str, name: str) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{self._prefix}{name}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / f"{what}-{digest}"

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other worker is at the checks that go by `name`, also where it ended in the middle of them."""
        file = self._file("lock", name)
        try:
            held = None if file is None else file.open("w")
        except OSError:
            held = None
        try:
            if held is not None:
                with suppress(OSError):  # a file system without locks: both make the checks
                    fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            if held is not None:
                held.close()

    def keep(self, record: Record) -> None:
        """Tell the others a record. One that cannot be written is made again where it is wanted."""
        file = self._file("record", record.id)
        if file is None:
            return
        draft = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            draft.write_text(json.dumps(record.to_json()), encoding="utf-8")
            draft.replace(file)

    def find(self, id: str, levels: Mapping[str, Level]) -> Record | None:
        """The record that a worker has told; `levels` are those of the check."""
        file = self._file("record", id)
        if file is None:
            return None
        from masquerade.report.reading import record_of

        try:
            record = record_of(json.loads(file.read_text(encoding="utf-8")), dict(levels))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return record if record.id == id else None
