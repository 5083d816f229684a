"""What a test's process tells the pytest process: reports, warnings, and a wish to stop, as lines of JSON in a file."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from typing import IO, Any

import pytest

#: Bytes that a test may report; a test that writes more is not believed.
LIMIT = 64 << 20


class Writer:
    """The child's end. Writes each entry at once: a crash loses nothing that came before it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._owner = file, os.getpid()

    def __call__(self, **entry: Any) -> None:
        if os.getpid() == self._owner:  # a test that forks and lets both processes go on reports once
            self._file.write(json.dumps(entry, default=repr).encode() + b"\n")
            self._file.flush()

    def report(self, config: pytest.Config, report: Any) -> None:
        self(report=config.hook.pytest_report_to_serializable(config=config, report=report))

    def warning(self, message: warnings.WarningMessage, when: str, location: Any) -> None:
        self(
            warning={
                "category": [message.category.__module__, message.category.__qualname__],
                "text": str(message.message),
                "filename": message.filename,
                "lineno": message.lineno,
                "when": when,
                "location": location,
            }
        )


def read(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The entries of a child; lines that are none are left out."""
    file.seek(0)
    for line in file.read(LIMIT).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def report(item: pytest.Item, data: dict[str, Any]) -> Any:
    """The report that `data` is, with the tuples that pytest expects and JSON does not know. None if it is none."""
    if isinstance(data.get("longrepr"), list):
        data["longrepr"] = tuple(data["longrepr"])
    for name in ("sections", "user_properties"):
        data[name] = [tuple(pair) for pair in data.get(name) or () if isinstance(pair, list)]
    if isinstance(data.get("location"), list):
        data["location"] = tuple(data["location"])
    return item.config.hook.pytest_report_from_serializable(config=item.config, data=data)


def _category(told: Any) -> type[Warning]:
    """The class of a warning, as far as this process has it: it imports nothing for that."""
    module, name = told if isinstance(told, list) and len(told) == 2 else ("", "")
    found = getattr(sys.modules.get(str(module)), str(name), None)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning


def relay_warning(item: pytest.Item, told: dict[str, Any]) -> None:
    """Pass on a warning that the child caught."""
    category = _category(told.get("category"))
    line = told.get("lineno")
    message = warnings.WarningMessage(
        category(str(told.get("text"))), category, str(told.get("filename")), line if isinstance(line, int) else 0
    )
    location = told.get("location")
    item.ihook.pytest_warning_recorded.call_historic(
        kwargs={
            "warning_message": message,
            "nodeid": item.nodeid,
            "when": told.get("when", "runtest"),
            "location": tuple(location) if isinstance(location, list) else None,
        }
    )
