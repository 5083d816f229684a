"""Which check is handed out next: a server keeps its machine while there is work for it."""

from __future__ import annotations

import pytest

from masquerade import machines
from masquerade.stage import Check
from masquerade.stage.turns import Turns


def checks(*names: str) -> list[Check]:
    """`0@h200` is check 0 on an H200."""
    return [Check("m", machines.resolve(name.partition("@")[2]), label=name) for name in names]


def taken(turns: Turns, *servers: str) -> list[str]:
    return [turns.take(server)[0].id for server in servers]


def test_one_server_makes_a_machines_checks_in_a_row_and_each_row_in_its_order() -> None:
    turns = Turns(checks("0@h200", "1@b580", "2@h200", "3@b580", "4@h200"))
    assert len(turns) == 5
    assert taken(turns, *["a"] * 5) == ["0@h200", "2@h200", "4@h200", "1@b580", "3@b580"]
    with pytest.raises(IndexError):
        turns.take("a")


def test_two_servers_take_two_machines_and_help_at_the_end() -> None:
    turns = Turns(checks("0@h200", "1@b580", "2@h200", "3@h200", "4@h200"))
    assert taken(turns, "a", "b", "a", "b", "a") == ["0@h200", "1@b580", "2@h200", "3@h200", "4@h200"]


def test_another_environment_is_another_row() -> None:
    one, other, third = checks("0@h200", "1@h200", "2@h200")
    other = Check("m", other.machine, label="1@h200", env={"A": "1"})
    assert taken(Turns([one, other, third]), "a", "a", "a") == ["0@h200", "2@h200", "1@h200"]


def test_a_check_that_is_made_again_comes_first() -> None:
    turns = Turns(checks("0@h200", "1@h200"))
    check, tries = turns.take("a")
    assert turns.more(check)
    turns.again(check, tries + 1)
    assert turns.take("a") == (check, 1)
    turns.take("a")
    assert not turns.more(check) and not len(turns)
