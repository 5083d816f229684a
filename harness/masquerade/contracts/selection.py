"""`-k`: picks cases by words of their ids, with and, or, not and brackets, as pytest does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from masquerade.contracts.contract import Case

Test = Callable[[str], bool]

_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_WORDS = ("and", "or", "not", "(", ")")


class ExpressionError(ValueError):
    """An expression that cannot be read; the message names the place."""


def matching(cases: Iterable[Case], expression: str) -> tuple[Case, ...]:
    """The cases whose ids match. Raises ExpressionError."""
    test = compiled(expression)
    return tuple(case for case in cases if test(case.id.lower()))


def compiled(expression: str) -> Test:
    """A test of small-lettered ids: a word matches where the id holds it. Raises ExpressionError."""
    parser = _Parser(expression)
    test = parser.either()
    if parser.tokens:
        raise ExpressionError(f"{expression!r}: expected and, or, or the end, found {parser.tokens[0]!r}")
    return test


class _Parser:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.tokens = _TOKEN.findall(expression)

    def _next_is(self, word: str) -> bool:
        if self.tokens[:1] == [word]:
            del self.tokens[0]
            return True
        return False

    def either(self) -> Test:
        tests = [self._all()]
        while self._next_is("or"):
            tests.append(self._all())
        return lambda id: any(test(id) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._next_is("and"):
            tests.append(self._one())
        return lambda id: all(test(id) for test in tests)

    def _one(self) -> Test:
        if self._next_is("not"):
            inner = self._one()
            return lambda id: not inner(id)
        if self._next_is("("):
            inner = self.either()
            if not self._next_is(")"):
                raise ExpressionError(f"{self.expression!r}: a bracket is not closed")
            return inner
        if not self.tokens or self.tokens[0] in _WORDS:
            found = repr(self.tokens[0]) if self.tokens else "the end"
            raise ExpressionError(f"{self.expression!r}: expected a word, not or a bracket, found {found}")
        word = self.tokens.pop(0).lower()
        return lambda id: word in id
