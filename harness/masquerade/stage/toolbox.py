"""The command-line tools of the machines of a run, nvidia-smi and the like, in one private folder."""

from __future__ import annotations

import os
import threading
from typing import Any

from masquerade.fakes import tools
from masquerade.stage.check import StageError
from masquerade.stage.folders import Folder


class Toolbox:
    """Builds the tools of a machine when they are first asked for. `python` runs them."""

    def __init__(self, python: str) -> None:
        self.python = python
        self._lock = threading.Lock()
        self._folder: Folder | None = None
        self._built: dict[str, str] = {}

    def of(self, machine: str, document: dict[str, Any]) -> str:
        """The folder of a machine's tools; "" for the machine here, which has its own.

        Raises StageError where they cannot be written.
        """
        if document["platform"] == "here":
            return ""
        with self._lock:
            if machine not in self._built:
                try:
                    self._folder = self._folder or Folder()
                    folder = os.path.join(self._folder.path, str(len(self._built)))
                    tools.build(folder, document, self.python)
                except OSError as error:
                    raise no_room(machine, error) from None
                self._built[machine] = folder
            return self._built[machine]

    def remove(self) -> None:
        if self._folder:
            self._folder.remove()
            self._folder = None
            self._built.clear()


def no_room(machine: str, error: OSError) -> StageError:
    """What is told where a machine's tools cannot be written."""
    mend = "make room there, or name another folder with TMPDIR"
    return StageError(f"cannot write the tools of {machine} to the temporary folder: {error.strerror or error}; {mend}")
