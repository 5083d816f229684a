"""What one check found: the record that contracts judge and reports print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["import", "call"]
Level = Literal["error", "warn", "off"]
Touch = Literal["clean", "queried", "fork-poison", "device-init"]

#: Kinds of finding, worst first: the first one that a record holds at level error gives its verdict.
SEVERITY = (
    "device-init",
    "fork-poison",
    "forbidden-import",
    "forbidden-native",
    "crash",
    "timeout",
    "exit",
    "compile-error",
    "out-of-resources",
    "import-error",
    "call-mismatch",
    "route-mismatch",
    "env-mutation",
    "subprocess",
    "thread",
    "native-load",
)

#: Kinds that are named in the verdict and leave the exit status alone, unless the configuration says otherwise.
WARN_BY_DEFAULT = frozenset({"env-mutation", "subprocess", "thread", "native-load"})


def default_levels() -> dict[str, Level]:
    """The level of each kind when nobody configured one."""
    return {kind: "warn" if kind in WARN_BY_DEFAULT else "error" for kind in SEVERITY}


@dataclass(frozen=True)
class Line:
    """A place in a source file. `file` is relative to the subject's root where it lies below one."""

    file: str
    line: int
    code: str = ""
    module: str = ""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"file": self.file, "line": self.line}
        if self.code:
            out["code"] = self.code
        if self.module:
            out["module"] = self.module
        return out

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Finding:
    """One thing that happened and may not. `what` is the probe, module, library, variable, program or exception.

    `missing` is the module for whose want the import failed, if a platform owns it: who executes it is not known then.
    """

    kind: str
    what: str
    phase: Phase
    blame: Line | None
    chain: tuple[Line, ...] = ()
    stack: tuple[str, ...] = ()
    message: str = ""
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "what": self.what,
            "phase": self.phase,
            "message": self.message,
            "blame": self.blame.to_json() if self.blame else None,
            "chain": [line.to_json() for line in self.chain],
            "stack": list(self.stack),
            **({"missing": self.missing} if self.missing else {}),
        }


@dataclass(frozen=True)
class Probe:
    """How often a counted function ran, and the lines of the subject that called it."""

    count: int
    callers: tuple[Line, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "callers": [line.to_json() for line in self.callers]}


@dataclass(frozen=True)
class Record:
    """One subject on one machine.

    `result` is what a called function returned: the value where JSON can hold it, else {"type": ..., "repr": ...}.
    `place` is where that function is defined. `probes` are the functions that were to be counted, by name.
    `allowed` are findings that a contract's allow-list excuses.
    `touch` is the worst device-touch level that was seen, also where it is allowed.
    `output` is the end of what the subject wrote on standard output and standard error.
    `stand_ins` are modules in whose place a stand-in was executed: what the real one does was not seen.
    `private_bytes` is the memory that the child had to itself at its end, where Check.measure asked for it.
    `reads` are the files and folders (with a slash) that it read, where Stage.reads asked for them; those that several
    checks share are one object.
    """

    id: str
    subject: str
    action: Literal["import", "call", "run"]
    machine: str
    platform: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    result: Any = None
    touch: Touch = "clean"
    launches: tuple[dict[str, Any], ...] = ()
    output: str = ""
    notes: tuple[str, ...] = ()
    levels: dict[str, Level] = field(default_factory=default_levels)
    place: Line | None = None
    probes: dict[str, Probe] = field(default_factory=dict)
    allowed: tuple[Finding, ...] = ()
    stand_ins: tuple[str, ...] = ()
    private_bytes: int | None = None
    reads: tuple[tuple[str, ...], ...] | None = field(default=None, repr=False, compare=False)

    @property
    def contract(self) -> str:
        """The contract that this check is of, as `calls/setup`; empty without one."""
        kind, slash, rest = self.id.partition("/")
        return f"{kind}/{rest.partition('/')[0]}" if slash and kind.isidentifier() else ""

    @property
    def verdict(self) -> str:
        """The worst finding's kind, error-level findings before warn-level ones; `ok` when there is none."""
        for level in ("error", "warn"):
            kinds = {f.kind for f in self.findings if self.levels.get(f.kind, "error") == level}
            for kind in SEVERITY:
                if kind in kinds:
                    return kind
        return "ok"

    @property
    def failed(self) -> bool:
        """Whether a finding of level error is there: what the exit status says."""
        return any(self.levels.get(f.kind, "error") == "error" for f in self.findings)

    @property
    def worst(self) -> Finding | None:
        """The finding that gives the verdict."""
        verdict = self.verdict
        return next((f for f in self.findings if f.kind == verdict), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "subject": self.subject,
            "action": self.action,
            "machine": self.machine,
            "platform": self.platform,
            "verdict": self.verdict,
            "failed": self.failed,
            "seconds": round(self.seconds, 4),
            "result": self.result,
            "touch": self.touch,
            "findings": [f.to_json() for f in self.findings],
            "allowed": [f.to_json() for f in self.allowed],
            "probes": {name: probe.to_json() for name, probe in self.probes.items()},
            "launches": list(self.launches),
            "stand_ins": list(self.stand_ins),
            "output": self.output,
            "notes": list(self.notes),
        }
