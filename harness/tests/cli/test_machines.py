"""`masquerade machines`: the zoo for people and for programs."""

from __future__ import annotations

import json
import re

from masquerade.machines import names, resolve


def test_every_machine_is_listed(masquerade) -> None:
    done = masquerade("machines")
    assert done.exit_code == 0
    assert set(names()) <= set(done.stdout.split())
    assert f"{len(names())} machines" in done.stdout


def test_the_list_as_json(masquerade) -> None:
    listed = json.loads(masquerade("machines", "--json").stdout)
    assert [machine["id"] for machine in listed] == names()
    assert {machine["platform"] for machine in listed} == {"here", "cuda", "rocm", "xpu", "cpu"}


def test_one_machine_shows_the_source_of_each_value(masquerade) -> None:
    done = masquerade("machines", "h100")
    assert done.exit_code == 0
    values, _, listed = done.stdout.partition("\nSources\n")
    numbered = dict(re.findall(r"^\[(\d+)\] (.+)$", listed, re.M))
    sources = resolve("h100").sources()
    for key in ("devices.0.name", "devices.0.total_memory", "driver.version"):
        shown = re.search(rf"^{re.escape(key)} = \S.*  \[(\d+)\]$", values, re.M)
        assert shown is not None, key
        assert numbered[shown[1]] == sources[key]


def test_one_machine_as_json_holds_what_the_fakes_are_given(masquerade) -> None:
    shown = json.loads(masquerade("machines", "h200x8", "--json").stdout)
    assert shown.pop("sources") == resolve("h200x8").sources()
    assert shown == resolve("h200x8").to_json()
    assert len(shown["devices"]) == 8


def test_an_unknown_machine_gets_the_nearest_names(masquerade) -> None:
    done = masquerade("machines", "mi356x")
    assert done.exit_code == 2
    assert "mi355x" in done.stderr
