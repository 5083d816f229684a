"""The HTML report as a file: one, complete, with a policy that fits it, and no markup but ours."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from masquerade.report.html import SCRIPTS, render
from masquerade.report.html_data import document
from masquerade.report.results import MachineColumn
from masquerade.stage.record import Finding, Line


class Page(HTMLParser):
    """The elements of a page, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.blocks: dict[str, str] = {}
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.inside = {
            "script": "data" if ("id", "data") in attrs else "script",
            "style": "style",
            "title": "title",
        }.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.blocks[self.inside] = self.blocks.get(self.inside, "") + data


HOSTILE = (
    "</script ></SCRIPT/x><script>window.pwned=1</script><!--<script> --> <img src=x onerror=1> & ]]> \u2028 \ud800"
)


def hostile_run(check, results):
    line = Line(HOSTILE, 1, HOSTILE, HOSTILE)
    finding = Finding("crash", HOSTILE, "import", line, (Line(HOSTILE, 2, HOSTILE),), (HOSTILE,), HOSTILE)
    record = check(HOSTILE, "h100", finding, replace(finding, kind="thread"), output=HOSTILE, notes=(HOSTILE,))
    return results([replace(record, result={HOSTILE: HOSTILE})], notes=(HOSTILE,), host={"python": HOSTILE})


def test_one_file_that_loads_nothing(check, results, device_init) -> None:
    page = Page(render(results([check("badpkg", "h100", device_init)])))
    loading = {"link", "img", "iframe", "object", "embed", "base", "form", "a", "audio", "video", "source"}
    assert not loading & page.tags.keys()
    assert not [(tag, name) for tag, name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|eval|Function)\(|import\(", page.blocks["script"])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", page.blocks["script"])


def test_the_policy_lets_these_scripts_and_styles_alone(check, results) -> None:
    page = Page(render(results([check("badpkg", "h100")])))
    [policy] = [value for tag, name, value in page.attributes if name == "content" and "default-src" in value]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, block in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(page.blocks[block].encode()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_a_subjects_text_adds_no_element(check, results) -> None:
    page, plain = Page(render(hostile_run(check, results))), Page(render(results([check("a", "h100")])))
    assert page.tags == plain.tags
    assert not set("<>&") & set(page.blocks["data"]), "no reading of the data, however lenient, leaves its element"


def test_a_machines_name_adds_none_to_the_title(check, results) -> None:
    machine = MachineColumn("h100</title><b>", "cuda", "sm_90")
    run = results([replace(check("train.py", machine.id), action="run")], machines=(machine,))
    page = Page(render(run))
    assert "b" not in page.tags
    assert "as h100</title><b> in" in page.blocks["title"]


def test_the_data_comes_back_as_it_was(check, results) -> None:
    run = hostile_run(check, results)
    assert json.loads(Page(render(run)).blocks["data"]) == json.loads(json.dumps(document(run)))


def test_a_finding_stands_once_however_many_checks_have_it(check, results, device_init) -> None:
    data: Any = document(results([check(f"m{i}", "h100", device_init) for i in range(50)]))
    assert len(data["findings"]) == 1 and len(data["lines"]) == 3
    assert all(row["findings"] == [0] for row in data["checks"])
    [finding] = data["findings"]
    assert data["lines"][finding["blame"]][:2] == ("badpkg/_arch.py", 5)
    [group] = data["groups"]
    assert len(group["places"]) == 50


def test_a_check_of_a_contract_names_it(check, results) -> None:
    data: Any = document(results([check("a", "h100"), replace(check("b", "h100"), id="imports/lazy<b>/b@h100")]))
    assert [row.get("contract") for row in data["checks"]] == [None, "imports/lazy<b>"]


def test_long_texts_keep_their_ends(check, results, device_init) -> None:
    loud = replace(device_init, message="m" * 10_000 + "end")
    data: Any = document(results([check("a", "h100", loud, output="o" * 10_000 + "last words")]))
    assert max(map(len, data["texts"])) < 4100
    assert {text[-3:] for text in data["texts"]} == {"end", "rds"}


def test_ten_thousand_loud_checks_are_a_file_that_opens(check, results, device_init) -> None:
    records = [check(f"pkg.m{i}", "h100", device_init, output=f"{i}" * 4000) for i in range(10_000)]
    assert len(render(results(records))) < 15_000_000


def test_the_scripts_are_small() -> None:
    from masquerade.report.html import _ASSETS

    assert {file.stem for file in _ASSETS.glob("*.js")} == set(SCRIPTS)
    assert all(len(file.read_text().splitlines()) < 150 for file in _ASSETS.glob("*.js"))
