"""Private temporary folders of a run. What a run left that was killed, the next one removes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from contextlib import suppress

PREFIX = "masquerade-stage-"

#: The file in a folder that its run holds locked. The kernel opens the lock however the run ends.
HELD = ".held"

_OURS = re.compile(re.escape(PREFIX) + r"\w{8}")


class Folder:
    """A new folder below the temporary directory, mode 0700. It goes with `remove`, or when this process exits.

    Raises OSError where none can be made.
    """

    def __init__(self) -> None:
        remove_left()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        new = os.path.join(self.path, HELD + ".new")
        lock = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        with suppress(OSError):  # a file system without locks: nobody can take it for left either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nobody sees the file before it is locked.
        os.rename(new, os.path.join(self.path, HELD))

    def remove(self) -> None:
        self._finalizer()


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a fork of this process has a copy, and not the folder
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def remove_left() -> None:
    """Remove this user's folders whose runs are gone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left(entry)


def _remove_if_left(entry: os.DirEntry[str]) -> None:
    found = entry.stat(follow_symlinks=False)
    if not entry.is_dir(follow_symlinks=False) or found.st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(entry.path, HELD), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(lock)
