"""A JSON report read back is what was written; several become one; what is no report is named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from masquerade.contracts import Broken
from masquerade.report import html, json_report, junit
from masquerade.report.reading import ReportError, merge, read
from masquerade.stage.record import Line, Probe


@pytest.fixture
def made(check, results, device_init, import_error):
    records = [
        check("badpkg.cli", "h100", device_init, output="words"),
        replace(check("badpkg.old", "b580", import_error), allowed=(device_init,), result=[1, None], touch="queried"),
        replace(
            check("badpkg.kern", "h100"),
            launches=(
                {
                    "kernel": "[/x]",
                    "line": None,
                    "place": None,
                    "instructions": {"[bold]": 1},
                    "seconds": 0.1,
                    "num_warps": 4,
                    "num_stages": 2,
                    "shared": 5,
                },
            ),
        ),
        replace(check("badpkg.old", "h100"), probes={"a:b": Probe(2, (Line("c.py", 3),))}, notes=("note",)),
        check("badpkg.odd", "h100", import_error, levels={"import-error": "warn"}),
    ]
    control = check("control", "h100", device_init)
    broken = (Broken("lazy", "stale", "masquerade.toml", 3),)
    beside = {"control": control, "broken": broken, "notes": ("whole",), "host": {"python": "3.11.7"}}
    return results(records, planned=9, interrupted=True, **beside)


def test_what_was_written_is_read(made) -> None:
    again = read(json_report.render(made), "a.json")
    assert json_report.render(again) == json_report.render(made)
    assert junit.render(again) == junit.render(made)
    assert html.render(again) == html.render(made)
    assert (again.failed, again.interrupted, again.planned) == (True, True, 9)


def test_a_contracts_own_levels_come_back(made) -> None:
    again = read(json_report.render(made), "a.json")
    assert [record.failed for record in again.ordered] == [record.failed for record in made.ordered]


def test_parts_become_one(made, check, results) -> None:
    other = results([check("badpkg.fine", "epyc-9655")], machines=made.machines[3:], notes=("whole",))
    whole = merge([made, other])
    assert whole.records == made.records + other.records
    assert [machine.id for machine in whole.machines] == ["h100", "mi300x", "b580", "epyc-9655"]
    assert (whole.planned, whole.interrupted, whole.broken) == (10, True, made.broken)
    assert whole.notes == ("whole", "The parts of this report were made on several hosts; the first one is named.")


def spoilt(**changes: object):
    def change(text: str) -> str:
        return json.dumps({**json.loads(text), **changes})

    return change


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text[:-5], "a.json is not JSON"),
        (lambda text: "[" * 100_000, "a.json is not JSON"),
        (lambda text: "[]", "a.json is no report of masquerade"),
        (lambda text: '{"schema": 1}', "a.json is no report of masquerade"),
        (spoilt(schema=2), "a.json has schema 2, and this masquerade reads 1"),
        (spoilt(levels=None), "a.json is not as its schema says"),
        (spoilt(checks=[{}]), "a.json is not as its schema says: there is no 'id'"),
        (lambda text: text.replace('"planned": 9', '"planned": Infinity'), "a.json is not as its schema says"),
        (lambda text: text.replace('"launches": []', '"launches": [{}]', 1), "there is no 'line'"),
        (spoilt(checks=7), "a.json is not as its schema says"),
        (lambda text: text.replace('"verdict": "device-init"', '"verdict": "ok"'), "says 'ok', and its findings make"),
        (lambda text: text.replace('"kind": "import-error"', '"kind": "no-such"'), "no kind of finding 'no-such'"),
    ],
)
def test_what_is_no_report_is_named(made, spoil, says) -> None:
    with pytest.raises(ReportError) as error:
        read(spoil(json_report.render(made)), "a.json")
    assert says in str(error.value)
