"""The recordings of real machines, and the exceptions of each."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from masquerade.machines import Machine
from masquerade.machines.catalogue import Zoo

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
EXCEPTIONS = Path(__file__).parent / "exceptions.toml"


class Recording(NamedTuple):
    """What one machine answered. `name` is `<machine>-torch<version>`; `exceptions` maps probes to reasons."""

    name: str
    document: dict[str, Any]
    exceptions: dict[str, str]

    @property
    def machine(self) -> Machine:
        """The faked machine that is to answer alike: the zoo's, or that of a file beside the recording."""
        file = FOLDER / f"{self.name}.toml"
        return Zoo().load(file) if file.exists() else Zoo().resolve(self.name.rpartition("-torch")[0])

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The probes that the platform has, with their answers."""
        rows: dict[str, dict[str, Any]] = self.document["probes"]
        return {id: row for id, row in rows.items() if "not applicable" not in row}

    def version(self, package: str) -> str | None:
        """The release of a package beside which the recording was made."""
        found = self.document["versions"].get(package)
        return str(found).partition("+")[0] if found else None


def exceptions() -> dict[str, dict[str, str]]:
    """The name of a recording -> the probes that differ -> why."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, dict[str, str]] = toml.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    return found


def recordings() -> list[Recording]:
    """All of them."""
    known = exceptions()
    files = sorted(FOLDER.glob("*.json"))
    return [Recording(f.stem, json.loads(f.read_text(encoding="utf-8")), known.get(f.stem, {})) for f in files]
