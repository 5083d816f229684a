"""JUnit XML that CI systems read, with the counts right."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from masquerade.contracts import Broken
from masquerade.report.junit import render
from masquerade.stage.record import Finding, Line


def test_a_suite_a_machine_and_a_case_a_check(check, results, device_init, machines) -> None:
    crash = Finding("crash", "SIGSEGV", "import", None)
    warning = Finding("thread", "Thread-1", "import", Line("a.py", 3))
    run = results([
        check("badpkg", "h100", device_init, warning), check("badpkg.a", "h100"),
        check("badpkg", "mi300x", crash, output="oh"),
    ])  # fmt: skip
    root = ET.fromstring(render(run))
    assert root.attrib == {"name": "masquerade", "tests": "3", "failures": "1", "errors": "1", "time": "1.250"}
    assert [suite.get("name") for suite in root] == [machine.id for machine in machines]
    assert {p.get("name"): p.get("value") for p in root[1].iter("property")} == {"platform": "rocm", "arch": "gfx942"}

    bad, fine = root[0].findall("testcase")
    assert (bad.get("name"), bad.get("file"), bad.get("line")) == ("import badpkg", "badpkg/_arch.py", "5")
    failure = bad.find("failure")
    assert failure is not None and failure.get("type") == "device-init"
    assert "by way of badpkg/registry.py:2" in (failure.text or "")
    assert "Thread-1" not in (failure.text or "")
    assert len(fine) == 0
    assert root[1].find("testcase/error") is not None
    assert root[1].findtext("testcase/system-out") == "oh"


def test_a_warning_fails_nothing_and_is_told(check, results) -> None:
    warning = Finding("thread", "Thread-1", "import", Line("a.py", 3))
    case = ET.fromstring(render(results([check("pkg", "h100", warning)]))).find("testsuite/testcase")
    assert case is not None and case.find("failure") is None
    assert case.findtext("system-out") == "warning: thread Thread-1 at a.py:3"


def test_what_xml_cannot_hold_is_written_out(check, results, device_init) -> None:
    odd = "\x00\x1b[31m</failure>]]>\ud800\ufffe&"
    finding = replace(device_init, what=odd, message=odd, blame=Line(odd, 1, odd))
    root = ET.fromstring(render(results([check(odd, "h100", finding, output=odd)])))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None and r"\x00\x1b[31m</failure>]]>\ud800" in (failure.text or "")


def test_a_contract_that_does_not_hold_as_a_whole_is_a_failure(check, results) -> None:
    stale = Broken("lazy-core", "stale: <nothing> is left", "pyproject.toml", 12)
    root = ET.fromstring(render(results([check("a", "h100")], broken=(stale,))))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    [case] = root.findall("testsuite[@name='contracts']/testcase")
    assert (case.get("name"), case.get("file"), case.get("line")) == ("lazy-core", "pyproject.toml", "12")
    assert case.find("failure").get("message") == "stale: <nothing> is left"
    assert render(results([check("a", "h100")])).count("<testsuite ") == 4, "none without"
