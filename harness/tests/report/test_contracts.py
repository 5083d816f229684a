"""What contracts add to a run: several checks of one module on one machine, levels of their own, and broken wholes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import jsonschema
from rich.console import Console

from masquerade.contracts import Broken
from masquerade.report import github, json_report, junit, terminal
from masquerade.report.groups import distinct
from masquerade.report.rows import cells
from masquerade.stage.record import Finding, Line

STALE = Broken("routes", "stale: row h100 no longer runs", "golden/routes.md", 7)


def test_the_worst_of_two_checks_of_one_module_is_in_the_matrix(check, results, device_init) -> None:
    bad, good = check("pkg", "h100", device_init), check("pkg", "h100")
    for order in ([bad, good], [good, bad]):
        assert cells("pkg", results(order))[0] == "device-init"


def test_a_finding_is_as_grave_as_the_gravest_contract_says(check, results, device_init) -> None:
    light = replace(check("a", "h100", device_init), levels={"device-init": "warn"})
    grave = replace(check("b", "h100", device_init), levels={"device-init": "error"})
    assert [group.level for group in distinct(results([light, grave]))] == ["error"]
    assert [group.level for group in distinct(results([light]))] == ["warn"]


def test_a_broken_whole_fails_the_run_and_is_told(check, results) -> None:
    run = results([check("pkg", "h100")], broken=(STALE,))
    assert run.failed
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    terminal.show(run, console)
    told = console.export_text()
    assert "golden/routes.md:7: routes: stale: row h100 no longer runs" in told
    assert told.splitlines()[-1].startswith("0 findings, 0 warnings, 1 fault of whole contracts in 1 module")
    document = json.loads(json_report.render(run))
    jsonschema.validate(document, json_report.schema())
    assert document["broken"] == [
        {"contract": "routes", "message": STALE.message, "file": "golden/routes.md", "line": 7}
    ]


def test_a_broken_whole_of_several_lines_is_told_line_by_line(check, results) -> None:
    run = results([check("pkg", "h100")], broken=(replace(STALE, message="no table\n  gfx950 lost x\n::error::y"),))
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    terminal.show(run, console)
    lines = console.export_text().splitlines()
    at = lines.index("  golden/routes.md:7: routes: no table")
    assert lines[at + 1 : at + 3] == ["    - gfx950 lost x", "    - ::error::y"]


def test_two_contracts_on_one_function_are_told_apart(check, results, machines) -> None:
    line = Line("kern/moe.py", 4, "def grid(n):", "kern.moe")
    records = [
        replace(
            check("kern.moe:grid", "h100", Finding("call-mismatch", "answer", "call", line, message=message)),
            id=f"calls/{name}/kern.moe:grid@h100",
        )
        for name, message in (("first", "want 9, got 10"), ("second", "want 131, got 132"))
    ]
    run = results(records, machines=machines[:1])
    console = Console(width=120, record=True, file=io.StringIO())
    terminal.show(run, console)
    text = console.export_text()
    assert text.count("call-mismatch  answer") == 2
    assert "says: want 9, got 10" in text and "breaks calls/first\n" in text and "breaks calls/second\n" in text
    names = {case.get("name") for case in ET.fromstring(junit.render(run).partition("\n")[2]).iter("testcase")}
    assert names == {"calls/first/kern.moe:grid", "calls/second/kern.moe:grid"}
    annotated = github.workflow_commands(run, lambda file: file)
    assert "got 10" in annotated and "got 132" in annotated and "breaks calls/second" in annotated
