"""The code of a function, with a call in front, is what it was."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

if sys.version_info[:2] != (3, 11):
    pytest.skip("for CPython 3.11 alone", allow_module_level=True)

from masquerade.stage.trace.inserted import with_call


def plain(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> Any:
    return a, b, rest, c, more


def loops(a: int) -> Any:
    out = []
    for i in range(a):
        if i % 2:
            continue
        while len(out) < i:
            out.append(i)
    return out


def handles(a: int) -> Any:
    try:
        try:
            return 1 // a
        finally:
            a += 1
    except ZeroDivisionError as error:
        return type(error), error.__traceback__.tb_lineno  # type: ignore[union-attr]


def closes(a: int) -> Any:
    def inner() -> int:
        return a

    a += 1
    return inner(), [a for _ in range(2)]


def generates(a: int) -> Any:
    def inner() -> Any:
        try:
            yield from range(a)
        finally:
            yield "end"

    return list(inner())


def with_statement(a: int) -> Any:
    with pytest.raises(ValueError, match="x") as caught:
        raise ValueError("x" * a)
    return str(caught.value)


def generator(a: int) -> Any:
    yield a
    yield a + 1


@pytest.mark.parametrize("function", [plain, loops, handles, closes, generates, with_statement])
@pytest.mark.parametrize("value", [0, 1, 5])
def test_it_does_what_it_did(function: Callable[[int], Any], value: int) -> None:
    if function is with_statement and not value:
        pytest.skip("raises nothing that matches")
    calls: list[int] = []
    before = function(value)
    made = FunctionType(
        with_call(function.__code__, lambda: calls.append(1)),
        globals(),
        None,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    assert made(value) == before
    assert calls == [1]
    assert inspect.signature(made) == inspect.signature(function)
    assert inspect.getsource(made) == inspect.getsource(function)


def test_of_a_generator_the_call_is_told_when_it_begins() -> None:
    calls: list[int] = []
    made = FunctionType(with_call(generator.__code__, lambda: calls.append(1)), globals())
    assert list(made(1)) == [1, 2]
    assert calls == [1]


def test_the_lines_of_a_traceback_stay() -> None:
    def raises() -> None:
        x = 1
        x += [][x]  # type: ignore[index,call-overload]

    made = FunctionType(with_call(raises.__code__, lambda: None), globals())
    lines = []
    for function in (raises, made):
        try:
            function()
        except IndexError as error:
            lines.append([frame.lineno for frame in traceback.extract_tb(error.__traceback__)][-1])
    assert lines[0] == lines[1]


def test_every_function_of_a_large_module_can_be_called_so() -> None:
    """Tables of all lengths: each is read back as the one that it was made from, moved."""
    import argparse
    import dis

    functions = [value for value in vars(argparse.ArgumentParser).values() if type(value) is FunctionType]
    assert len(functions) > 20
    for function in functions:
        code = with_call(function.__code__, lambda: None)
        old, new = [[i for i in dis.get_instructions(c)] for c in (function.__code__, code)]
        added = len(code.co_code) - len(function.__code__.co_code)
        begin = next(i.offset for i in old if i.opname == "RESUME") + 2
        kept = [i for i in new if i.offset < begin or i.offset >= begin + added]
        assert [(i.opname, i.positions) for i in kept] == [(i.opname, i.positions) for i in old]

        def moved(entry: Any, by: int = added, at: int = begin) -> tuple[int, ...]:
            return tuple(place + by if place >= at else place for place in (entry.start, entry.end, entry.target))

        parse = dis._parse_exception_table  # type: ignore[attr-defined]
        assert [(e.start, e.end, e.target) for e in parse(code)] == [moved(e) for e in parse(function.__code__)]
