"""The call after an import, in the child: what is set up for it, its arguments, its answer, and counted probes."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from masquerade.fakes.hooks import on_import
from masquerade.watch import probes
from masquerade.watch.lookup import attribute
from masquerade.watch.recorder import Note

#: Characters kept of a reason that an oracle gave, and reasons kept of one answer.
REASON, REASONS = 2000, 200


class Call:
    """One call. `stage` names what is done beside the call itself, for an error that is not the function's own."""

    def __init__(self, request: Mapping[str, Any], note: Note) -> None:
        self.request, self.note = request, note
        self.stage = ""
        self.place: list[Any] | None = None
        self.counts: Callable[[], dict[str, int]] = dict

    def set_up(self, module: ModuleType) -> Callable[[], Any]:
        """Set up all that comes before the call; gives the call itself. `module` is the subject, imported."""
        request = self.request
        change_environment(request.get("env_after_import") or {})
        self.stage = f"{request['module']}:{request['function']}"
        target = attribute(module, request["function"])
        self.place = place(target)
        args, kwargs = list(request.get("args") or ()), dict(request.get("kwargs") or {})
        if factory := request.get("factory"):
            self.stage = f"factory {factory}"
            maker, _, path = factory.partition(":")
            args, kwargs = arguments(attribute(import_module(maker), path)(*args, **kwargs))
        if names := request.get("probes"):
            self.stage = "counted probes"
            self.counts = probes.count(names, self.note, on_import)
        self.stage = ""
        return lambda: target(*args, **kwargs)


def change_environment(changes: Mapping[str, str | None]) -> None:
    """Set variables; None takes one away."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def place(function: Any) -> list[Any] | None:
    """File and line where a function is defined; None for what is not written in Python."""
    function = getattr(function, "__func__", function)
    for _ in range(20):
        function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    file, line = getattr(code, "co_filename", None), getattr(code, "co_firstlineno", None)
    return [file, line] if isinstance(file, str) and isinstance(line, int) else None


def arguments(made: Any) -> tuple[list[Any], dict[str, Any]]:
    """What a factory made, as arguments.

    A dict holds keyword arguments; a pair of a list or tuple and a dict holds both kinds; another list or tuple holds
    positional arguments. Raises TypeError for anything else.
    """
    if isinstance(made, dict):
        return [], made
    if isinstance(made, (list, tuple)):
        if len(made) == 2 and isinstance(made[0], (list, tuple)) and isinstance(made[1], dict):
            return list(made[0]), made[1]
        return list(made), {}
    raise TypeError(
        f"it gave a {type(made).__name__}; a factory gives a dict of keyword arguments, a list or tuple of positional "
        "ones, or a pair (list, dict)"
    )


def oracle_answer(value: Any) -> Any:
    """An oracle's answer in JSON: a text, or a dict with `backend`, and `reason` and `refused` where it gives them.

    `value` is a text, an enum member, or a dict or an object with `backend`; any other value is given back as it is.
    """
    if isinstance(value, enum.Enum):
        return value.name
    fields = value.get if isinstance(value, Mapping) else lambda name, default=None: getattr(value, name, default)
    backend = named(fields("backend"))
    if isinstance(value, str) or backend is None:
        return value
    out: dict[str, Any] = {"backend": backend}
    if reason := fields("reason"):
        out["reason"] = text(reason)
    refused = fields("refused") or ()
    pairs = refused.items() if isinstance(refused, Mapping) else refused
    told = [(named(pair[0]) or text(pair[0]), text(pair[1])) for pair in list(pairs)[:REASONS]]
    return {**out, "refused": dict(told)} if told else out


def named(backend: Any) -> str | None:
    """The name of a backend: a text, or what has a name that is one; None for anything else."""
    name = backend if isinstance(backend, str) else getattr(backend, "name", None)
    return name.name if isinstance(name, enum.Enum) else str(name) if isinstance(name, str) else None


def text(value: Any) -> str:
    return str(value)[:REASON]
