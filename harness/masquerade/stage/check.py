"""What the stage is asked: a check of one subject on one machine. And where modules were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from masquerade import machines
from masquerade.machines import Machine
from masquerade.stage.arguments import require_json
from masquerade.stage.record import Level, default_levels

#: Seconds that a server may be silent beyond a check's own limit: it keeps the time, and a subject may have stopped it.
SILENCE = 20.0


class StageError(RuntimeError):
    """The tool itself failed: no server, no child, or blind."""


class InterpreterError(StageError):
    """The interpreter that was named cannot be the subject's: it is no Python, or an older one than 3.10."""


class SubjectError(ValueError):
    """A subject that does not exist."""


@dataclass(frozen=True)
class Check:
    """One subject on one machine.

    subject: `pkg.mod` (imported) or `pkg.mod:func` (imported, then called with `args` and `kwargs`, which are JSON
    values). owners: platform -> dotted names of the modules that it owns; "any" owns what is nobody's. path: folders
    put first on the subject's sys.path. env: variables to set; None unsets. present, absent: packages to add to or to
    take from the machine. stand_ins: modules that are replaced -> the user's module that is executed in the place of
    each, or "" for names alone. timeout: seconds for the whole check. settle: seconds to wait for threads that the
    subject left behind. memory: bytes of private memory that the check may have; None for no limit. measure: tell how
    many it has at its end.
    label: the id of the check and of its record; `action:subject@machine` without it.

    first: modules that are imported before the subject. Where that leaves nothing but modules behind, it is done once
    for all checks that are otherwise alike, which go on from there in forks.

    Of a call alone. factory: `pkg.mod:func` that is called in the child with `args` and `kwargs` and makes the real
    ones, which JSON need not be able to hold. env_after_import: variables set between import and call. probes: names
    `pkg.mod:func` whose calls are counted. oracle: take the answer for an oracle's, and keep its reasons.
    """

    subject: str
    machine: Machine
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    owners: Mapping[str, Sequence[str]] = field(default_factory=machines.default_owners)
    path: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    timeout: float = 60.0
    settle: float = 1.0
    memory: int | None = None
    levels: Mapping[str, Level] = field(default_factory=default_levels)
    measure: bool = False
    label: str = ""
    factory: str = ""
    env_after_import: Mapping[str, str | None] = field(default_factory=dict)
    probes: tuple[str, ...] = ()
    oracle: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError naming an argument that JSON cannot hold."""
        require_json(self.subject, self.args, self.kwargs)

    @property
    def action(self) -> str:
        return "call" if ":" in self.subject else "import"

    def signature(self) -> str:
        """What two checks share that differ in their subject alone."""
        return repr(replace(self, subject="", label=""))

    @property
    def id(self) -> str:
        return self.label or f"{self.action}:{self.subject}@{self.machine.id}"


def replaced(machine: Machine, stand_ins: Mapping[str, str]) -> dict[str, Any]:
    """The machine as the child sees it, with the modules that declared stand-ins replace."""
    document = machine.to_json()
    if stand_ins and machine.platform != "here":
        document["packages"] = {**document["packages"], "stand_ins": dict(stand_ins)}
    return document


@dataclass(frozen=True)
class Discovery:
    """The modules of a package: found by looking, none imported. `root` is the folder that the package lies in."""

    root: str
    modules: tuple[str, ...]
    notes: tuple[str, ...] = ()
