"""What launches became, as rows of a golden table: matrix instructions, shared memory, registers, spilled words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.contracts.call import exception
from masquerade.contracts.codegen_words import NONE, Launch
from masquerade.contracts.golden import Answer, cells
from masquerade.stage.record import Finding, Line, Record

KEYS = ("configuration", "kernel", "machine", "arch")
COLUMNS = ("instructions", "shared", "registers", "spills")

#: What stands for a kernel, or for a number, where there is none.
NOTHING = "-"

#: How far a number may move, whatever part of it that is: registers and shared memory are given out in such portions.
#: Source: CUDA C++ Programming Guide, compute capabilities (registers a thread in units of 8); shared memory of one KiB
#: is what the runtime takes for itself from compute capability 8.0 on.
_PORTION = {"shared": 1024, "registers": 8, "spills": 8}

Row = Mapping[str, Answer]


@dataclass(frozen=True)
class Failure:
    """An error that ended a call: of a compiler, of a kernel that does not fit, or any exception (kernel `-`)."""

    kernel: str
    error: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"kernel": self.kernel, "error": self.error, "message": self.message}


def failure(record: Record) -> tuple[Failure | None, Finding | None]:
    """The error that ended a call, and its finding, which a judged record may have no more."""
    for finding in record.findings:
        if finding.kind in ("compile-error", "out-of-resources"):
            return Failure(label(finding.what), finding.kind, finding.message), finding
    raised = exception(record)
    if raised is not None:
        return Failure(NOTHING, raised.what, raised.message), raised
    found = record.result
    if isinstance(found, dict) and found.keys() == {"kernel", "error", "message"}:
        return Failure(*map(str, found.values())), None
    return None, None


def label(kernel: Any) -> str:
    """A kernel's name as a cell of the table's keys holds it."""
    return re.sub(r"[^\w.-]", "_", str(kernel)) or "kernel"


def case_of(key: str) -> tuple[str, str]:
    """Configuration and machine of a row's key."""
    configuration, _, machine, _ = key.split(" ")
    return configuration, machine


def labelled(launches: Iterable[Launch]) -> dict[str, Launch]:
    """Launches by their kernel's name, in their order; what a kernel is compiled to besides is its name.2, name.3."""
    seen: Counter[str] = Counter()
    out = {}
    for launch in launches:
        name = label(launch["kernel"])
        seen[name] += 1
        out[name if seen[name] == 1 else f"{name}.{seen[name]}"] = launch
    return out


def row(launch: Launch) -> Row:
    """The cells of a launch. What the driver does not tell is `unknown`."""
    if launch.get("pruned"):
        return without(cells.raised("out-of-resources"), str(launch["pruned"]))
    found = ", ".join(map(str, launch.get("instructions") or ()))
    numbers = {name: Answer(str(launch.get(name, "unknown"))) for name in COLUMNS[1:]}
    return {"instructions": Answer(cells.name(found) if found else NONE), **numbers}


def without(said: str, reason: str) -> Row:
    """The cells of what has no instructions: why not."""
    return {"instructions": Answer(said, reason), **dict.fromkeys(COLUMNS[1:], Answer(NOTHING))}


def place(launch: Launch) -> Line | None:
    """Where a launch's kernel is defined: the line that one would mend."""
    found = launch.get("place")
    return Line(str(found["file"]), int(found["line"])) if isinstance(found, dict) else None


def same(tolerance: float, column: str, one: str, other: str) -> bool:
    """Whether two cells of a column say the same: numbers may move a little, but not from none to some."""
    if column not in _PORTION or not (one.isdecimal() and other.isdecimal()):
        return cells.same(one, other)
    old, new = int(one), int(other)
    if column == "spills" and not (old and new):
        return old == new
    return abs(new - old) <= max(_PORTION[column], tolerance * old)
