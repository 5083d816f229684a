"""How a function is called, and how a call came to its end: what contracts on calls, routing and codegen share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.contracts import kinds
from masquerade.contracts.conditions import Env
from masquerade.contracts.settings import setting
from masquerade.stage.record import Finding, Record

#: Kinds of finding in which an exception that left the call is told.
_RAISED = ("call-mismatch", "exit", "compile-error", "out-of-resources")
#: Kinds after which there is no answer.
_UNANSWERED = (*_RAISED, "import-error", "crash", "timeout")


@dataclass(frozen=True, kw_only=True)
class Call:
    """Arguments and surroundings of a call."""

    args: tuple[Any, ...] = setting(kinds.list_of(kinds.literal), "Positional arguments.", ())
    kwargs: Mapping[str, Any] = setting(kinds.table_of(kinds.literal), "Keyword arguments.", dict)
    factory: str = setting(
        kinds.function,
        "A function of yours, pkg.mod:func, that gets args and kwargs in the child and makes the real ones: a dict of "
        "keyword arguments, a list or tuple of positional ones, or a pair of both.",
        "",
    )
    env_after_import: Env = setting(kinds.variables, "Variables that are set between the import and the call.", dict)

    def call(self) -> dict[str, Any]:
        """The fields of a Check that tell this."""
        return {name: getattr(self, name) for name in ("args", "kwargs", "factory", "env_after_import")}


@dataclass(frozen=True, kw_only=True)
class Asked(Call):
    """One call of several, by name: a problem of an oracle, a configuration of a kernel."""

    env: Env = setting(kinds.variables, "Environment variables for this one.", dict)


def exception(record: Record) -> Finding | None:
    """The finding that tells which exception left the call; None where none did."""
    return next((f for f in record.findings if f.kind in _RAISED and f.phase == "call" and f.what.isidentifier()), None)


def answered(record: Record) -> bool:
    """Whether the call came back with an answer."""
    return not any(finding.kind in _UNANSWERED for finding in record.findings)


def spoken(result: Any) -> str:
    """A result as a message shows it: JSON, or the representation of what JSON cannot hold."""
    if isinstance(result, dict) and result.keys() == {"type", "repr"}:
        return str(result["repr"])
    return json.dumps(result, ensure_ascii=False)
