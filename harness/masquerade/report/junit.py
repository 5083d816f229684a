"""JUnit XML, in the dialect that Jenkins, GitLab and Buildkite read: a suite a machine, a case a check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from masquerade.report.results import MachineColumn, Results
from masquerade.report.text import clean, first_line
from masquerade.stage.record import Finding, Record

if TYPE_CHECKING:
    from masquerade.contracts import Broken

#: The subject did not come to an end by itself: an error in JUnit's words, not a failure.
_ERRORS = frozenset({"crash", "timeout", "exit"})


def render(results: Results) -> str:
    """The run as one `<testsuites>` document.

    Source: the schema of the Jenkins xUnit plugin (junit-10.xsd), with `file` and `line` as pytest writes them.
    """
    root = ET.Element("testsuites", name="masquerade")
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for machine in results.machines:
        records = [record for record in results.ordered if record.machine == machine.id]
        suite = _suite(machine, records, results)
        root.append(suite)
        for key in totals:
            totals[key] += int(suite.get(key, "0"))
    if results.broken:
        root.append(_whole(results.broken))
        totals["tests"] += len(results.broken)
        totals["failures"] += len(results.broken)
    for key, value in totals.items():
        root.set(key, str(value))
    root.set("time", f"{results.seconds:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(machine: MachineColumn, records: list[Record], results: Results) -> ET.Element:
    broken = sum(record.failed and record.verdict in _ERRORS for record in records)
    suite = ET.Element(
        "testsuite",
        name=clean(machine.id),
        tests=str(len(records)),
        failures=str(sum(record.failed for record in records) - broken),
        errors=str(broken),
        skipped="0",
        time=f"{sum(record.seconds for record in records):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    stood = [("stand-in", name) for name in dict.fromkeys(name for record in records for name in record.stand_ins)]
    for name, value in (("platform", machine.platform), ("arch", machine.arch), *stood):
        ET.SubElement(properties, "property", name=name, value=clean(value))
    suite.extend(_case(record, results) for record in records)
    return suite


def _whole(broken: Sequence[Broken]) -> ET.Element:
    """What contracts show as a whole: a suite of their own, of failures alone."""
    suite = ET.Element("testsuite", name="contracts", tests=str(len(broken)), failures=str(len(broken)), errors="0")
    for each in broken:
        case = ET.SubElement(
            suite, "testcase", classname="masquerade.contracts", name=clean(each.contract), time="0.000"
        )
        case.set("file", clean(each.file))
        case.set("line", str(each.line))
        ET.SubElement(case, "failure", type="contract", message=clean(each.message)).text = clean(str(each))
    return suite


def _case(record: Record, results: Results) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=clean(f"masquerade.{record.machine}"),
        name=clean(record.id.rpartition("@")[0] if record.contract else f"{record.action} {record.subject}"),
        time=f"{record.seconds:.3f}",
    )
    shown = list(results.shown(record))
    worst = record.worst
    if record.failed and worst is not None:
        if worst.blame:
            case.set("file", clean(worst.blame.file))
            case.set("line", str(worst.blame.line))
        tag = "error" if record.verdict in _ERRORS else "failure"
        problem = ET.SubElement(case, tag, type=record.verdict, message=_headline(worst))
        problem.text = _lines([text for f in shown if results.level(f, record) == "error" for text in _told(f)])
    warned = [_headline(f) for f in shown if results.level(f, record) == "warn"]
    output = [*(f"warning: {line}" for line in warned), *record.output.splitlines()]
    if output:
        ET.SubElement(case, "system-out").text = _lines([clean(line) for line in output])
    return case


def _headline(finding: Finding) -> str:
    where = f" at {finding.blame}" if finding.blame else ""
    return clean(f"{finding.kind} {finding.what}{where}")


def _told(finding: Finding) -> list[str]:
    out = [_headline(finding)]
    if finding.blame and finding.blame.code:
        out.append(f"    | {clean(finding.blame.code.strip())}")
    if finding.message:
        out.append(f"    says: {first_line(finding.message)}")
    out += [f"    by way of {clean(str(link))}" for link in finding.chain if link != finding.blame]
    return out


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)
