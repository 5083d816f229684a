"""What a check may be asked with: values that JSON can hold, told before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade import machines
from masquerade.stage import Check, Stage

CPU = machines.resolve("cpu")
ROUND: list[Any] = []
ROUND.append(ROUND)


@pytest.mark.parametrize(
    "args, kwargs, says",
    [
        ((1, {2}), {}, r"args\[1\] of pkg:f holds a value of type set, which JSON cannot"),
        ((), {"shape": (1, b"x")}, r"kwargs\['shape'\] of pkg:f holds a value of type bytes"),
        (([{"deep": [object()]}],), {}, r"args\[0\] of pkg:f holds a value of type object"),
        (({1: "one"},), {}, r"args\[0\] of pkg:f has the key 1: JSON has keys of text alone"),
        ((ROUND,), {}, r"args\[0\] of pkg:f is nested too deep, or holds itself"),
        ((), {3: 4}, r"kwargs of pkg:f has the key 3: "),
    ],
)
def test_an_argument_that_json_cannot_hold_is_named(args: tuple[Any, ...], kwargs: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Check("pkg:f", CPU, args=args, kwargs=kwargs)


def test_nothing_is_started_for_such_an_argument() -> None:
    with Stage("/no/such/python") as stage, pytest.raises(ValueError, match=r"args\[0\] of pkg:f .* factory"):
        stage.run("pkg:f", args=[{1}])


def test_an_option_that_there_is_not() -> None:
    with Stage("/no/such/python") as stage, pytest.raises(TypeError, match="wonder"):
        stage.run("pkg:f", wonder=1)


@pytest.mark.parametrize("value", [None, True, 1, 2.5, "text", [1, [2]], (1, 2), {"a": {"b": None}}, float("inf")])
def test_what_json_can_hold(value: Any) -> None:
    assert Check("pkg:f", CPU, args=(value,), kwargs={"x": value}).args == (value,)
