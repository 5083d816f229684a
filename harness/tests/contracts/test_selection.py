"""`-k`: words of ids, with and, or, not and brackets."""

from __future__ import annotations

import pytest

from masquerade.contracts.selection import ExpressionError, compiled

IDS = ["imports/lazy/pkg.kern@h100", "imports/lazy/pkg.ops@mi355x", "routing/moe/small@mi355x+aiter"]


@pytest.mark.parametrize(
    "expression, chosen",
    [
        ("h100", [0]),
        ("MI355X", [1, 2]),
        ("imports and mi355x", [1]),
        ("h100 or routing", [0, 2]),
        ("not imports", [2]),
        ("not (h100 or routing)", [1]),
        ("imports and not h100 or moe", [1, 2]),
        ("not not h100", [0]),
        ("@mi355x+aiter", [2]),
        ("pkg.ops@", [1]),
        ("nothing", []),
    ],
)
def test_words_of_ids(expression: str, chosen: list[int]) -> None:
    assert [n for n, id in enumerate(IDS) if compiled(expression)(id)] == chosen


@pytest.mark.parametrize(
    "expression, says",
    [
        ("", "expected a word, not or a bracket, found the end"),
        ("a and", "expected a word, not or a bracket, found the end"),
        ("a b", "expected and, or, or the end, found 'b'"),
        ("(a", "a bracket is not closed"),
        ("a)", "expected and, or, or the end, found ')'"),
        ("or a", "expected a word, not or a bracket, found 'or'"),
    ],
)
def test_what_cannot_be_read_is_told(expression: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says.replace("(", r"\(").replace(")", r"\)")):
        compiled(expression)
