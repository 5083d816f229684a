"""Every report names the stand-ins that were executed, so that nobody takes them for the real thing."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from rich.console import Console

from masquerade.report import buildkite, github, html, json_report, junit, reading, standins, terminal
from masquerade.report.results import Results

LINE = "pkg._C: 2 checks on h100, b580"


@pytest.fixture
def run(check, results) -> Results:
    records = [
        check("pkg.a", "h100", stand_ins=("pkg._C",)),
        check("pkg.b", "b580", stand_ins=("pkg._C", "vendor")),
        check("pkg.b", "mi300x"),
    ]
    return results(records)


def test_each_module_is_one_line(run: Results) -> None:
    assert standins.lines(run) == [LINE, "vendor: 1 check on b580"]


def test_the_terminal(run: Results) -> None:
    console = Console(file=io.StringIO(), width=200)
    terminal.show(run, console)
    text = console.file.getvalue()
    assert f"{standins.TITLE}\n  - {LINE}\n  - vendor: 1 check on b580\n" in text


def test_json_and_what_is_read_back(run: Results) -> None:
    text = json_report.render(run)
    document = json.loads(text)
    jsonschema.validate(document, json_report.schema())
    assert document["stand_ins"] == ["pkg._C", "vendor"]
    assert [row["stand_ins"] for row in document["checks"]] == [["pkg._C"], [], ["pkg._C", "vendor"]]
    assert standins.lines(reading.read(text, "x")) == standins.lines(run)


def test_the_page(run: Results) -> None:
    page = html.render(run)
    assert json.dumps({"title": standins.TITLE, "lines": standins.lines(run)}, separators=(",", ":")) in page


def test_junit(run: Results) -> None:
    root = ET.fromstring(junit.render(run))
    found = {
        suite.get("name"): [p.get("value") for p in suite.iter("property") if p.get("name") == "stand-in"]
        for suite in root.iter("testsuite")
    }
    assert found == {"h100": ["pkg._C"], "mi300x": [], "b580": ["pkg._C", "vendor"], "epyc-9655": []}


def test_github_and_buildkite(run: Results) -> None:
    [notice] = github.workflow_commands(run, lambda file: None).splitlines()
    assert notice == f"::notice title=stand-ins::{standins.TITLE}:%0A| {LINE}%0A| vendor: 1 check on b580"
    for page in (github.summary(run), buildkite.render(run)):
        assert f"#### {standins.TITLE}\n\n- `{LINE}`\n- `vendor: 1 check on b580`" in page


def test_nothing_is_said_where_all_was_real(check, results) -> None:
    made = results([check("pkg.a", "h100")])
    console = Console(file=io.StringIO(), width=200)
    terminal.show(made, console)
    told = [console.file.getvalue(), github.summary(made), github.workflow_commands(made, lambda file: None)]
    assert not any("tand-in" in text for text in told)


def test_a_name_that_a_subject_made_up_is_inert(check, results) -> None:
    run = results([check("pkg.a", "h100", stand_ins=("x\n::error::no", "##[error]y"))])
    assert standins.lines(run) == ["# #[error]y: 1 check on h100", "x\\n::error::no: 1 check on h100"]
