"""Attributes of modules that a body looks up by itself: what somebody else's import has put there is not its own."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from masquerade.stage.trace.ops import Body, Key, Op, Rows
from masquerade.stage.trace.tracer import OF_A_FUNCTION, Tracer

_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def lookups(code: CodeType, above: Rows, module: str) -> Iterator[tuple[list[str], Rows]]:
    """`base.one.two` as ["base", "one", "two"], of a body and of the classes in it, and the rows of its stack."""
    chain: list[str] = []
    line = code.co_firstlineno
    for step in dis.get_instructions(code):
        if step.opname in ("CACHE", "EXTENDED_ARG", "PUSH_NULL"):
            continue
        if step.opname in _ATTRIBUTES and chain:
            chain.append(step.argval)
            continue
        if len(chain) > 1:
            yield chain, [*above, [code.co_filename, line, code.co_name, module]]
        chain = [step.argval] if step.opname in _LOADS else []
        line = (step.positions.lineno if step.positions else None) or line  # type: ignore[attr-defined]
        if isinstance(step.argval, CodeType) and not step.argval.co_flags & OF_A_FUNCTION:
            yield from lookups(step.argval, [*above, [code.co_filename, line, code.co_name, module]], module)


def look_up(tracer: Tracer) -> None:
    """Add to each body what it looks up: modules that must be there, and attributes that a `__getattr__` made once."""
    trace, modules = tracer.trace, sys.modules
    last = {name.rpartition(".")[2] for name in trace.bodies}
    last.update(value for key in trace.blocks for value in key[1:] if type(value) is str)
    for body in trace.bodies.values():
        space = space_of(modules.get(body.name))
        if body.code is None or last.isdisjoint(_names(body.code)):
            continue
        for (base, *attributes), rows in lookups(body.code, [], body.name):
            module = space.get(base)
            for attribute in attributes:
                if not isinstance(module, ModuleType):
                    break
                for op in _of(tracer, module, attribute, rows):
                    if op.kind != "call" or op.what not in body.keys:
                        _insert(body, op)
                module = space_of(module).get(attribute)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and not inner.co_flags & OF_A_FUNCTION:
            yield from _names(inner)


def _of(tracer: Tracer, module: ModuleType, attribute: str, rows: Rows) -> Iterator[Op]:
    key = maker(tracer, module, attribute)
    if key is not None and key in tracer.trace.blocks:
        yield Op("call", key, rows)
    space = space_of(module)
    below = f"{space.get('__name__')}.{attribute}"
    if below in tracer.trace.bodies and space.get(attribute) is sys.modules.get(below):
        yield Op("needs", below, rows)


def space_of(module: Any) -> dict[str, Any]:
    """The dictionary of a module, without a call of what it may do when it is asked for an attribute."""
    try:
        space: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return space


def maker(tracer: Tracer, module: Any, attribute: str) -> Key | None:
    """The call that makes an attribute of a module when it is first asked for, if there can be one."""
    own = space_of(module).get("__getattr__")
    function = own if own is not None else getattr(type(module), "__getattr__", None)
    if type(function) is not FunctionType:
        return None
    arguments = [attribute] if function is own else [module, attribute]
    return tracer.key(function, arguments)


def _insert(body: Body, op: Op) -> None:
    """Put an operation where the body comes to its line."""
    line = op.rows[0][1]
    later = (place for place, other in enumerate(body.ops) if other.rows and other.rows[0] and other.rows[0][1] > line)
    body.ops.insert(next(later, len(body.ops)), op)
