"""GitHub Actions: annotations on the blamed lines of the diff, and the summary of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from masquerade.report import standins
from masquerade.report.groups import Group, distinct
from masquerade.report.markdown import document
from masquerade.report.placed import Locate
from masquerade.report.results import Results
from masquerade.report.text import clean, clip, first_line, plural

if TYPE_CHECKING:
    from masquerade.contracts import Broken

#: Annotations of one level that GitHub shows for a step; it drops the others without a word.
MOST_ANNOTATIONS = 10

#: Bytes of a step's summary, 1 MiB by GitHub's rule, less what other tools may have written in the same step.
MOST_BYTES = 1000 * 1024

_MOST_LINKS = 10


def workflow_commands(results: Results, locate: Locate) -> str:
    """Workflow commands, a line each: the worst findings of each level, as many as GitHub shows.

    Source: GitHub's reference of workflow commands, and `escapeData` and `escapeProperty` of its toolkit.
    """
    groups = distinct(results)
    lines: list[str] = []
    for level, command in (("error", "error"), ("warn", "warning")):
        found = [_command(command, group, locate) for group in groups if group.level == level]
        if level == "error":
            found = [*(_whole(broken, locate) for broken in results.broken), *found]
        lines += found[:MOST_ANNOTATIONS]
        if len(found) > MOST_ANNOTATIONS:
            rest = plural(len(found) - MOST_ANNOTATIONS, f"more {command}")
            lines.append(f"masquerade: {rest} without an annotation, as GitHub shows {MOST_ANNOTATIONS} for a step")
    if stood := standins.lines(results):
        lines.append(
            _written("notice", "stand-ins", None, [f"{standins.TITLE}:", *(f"| {line}" for line in stood)], locate)
        )
    return "".join(f"{line}\n" for line in lines)


def summary(results: Results) -> str:
    """The run as Markdown, for the file that GITHUB_STEP_SUMMARY names."""
    return document(results, MOST_BYTES)


def _command(command: str, group: Group, locate: Locate) -> str:
    finding = group.finding
    place = (finding.blame.file, finding.blame.line) if finding.blame else None
    return _written(command, f"{finding.kind} {finding.what}", place, _told(group), locate)


def _whole(broken: Broken, locate: Locate) -> str:
    """A contract that does not hold as a whole, on its line in the configuration or in its golden table."""
    first, *more = str(broken).split("\n")
    told = [clip(clean(first)), *(f"| {clip(clean(line.strip()))}" for line in more)]
    return _written("error", f"contract {broken.contract}", (broken.file, broken.line), told, locate)


def _written(command: str, title: str, place: tuple[str, int] | None, told: Iterable[str], locate: Locate) -> str:
    properties = {"title": clip(clean(title))}
    file = locate(place[0]) if place else None
    if place and file is not None and clean(file) == file:
        properties = {"file": file, "line": str(max(place[1], 1)), **properties}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {listed}::{_data(chr(10).join(told))}"


def _told(group: Group) -> Iterator[str]:
    finding = group.finding
    where = f" at {clip(clean(str(finding.blame)))}" if finding.blame else ""
    yield f"{finding.kind}: {clip(clean(finding.what))}{where}"
    # The runner writes each line of the message to its log: a sign before the subject's words keeps them words.
    for message in filter(None, map(first_line, list(group.messages)[:1])):
        yield f"| says: {message}"
    if finding.blame and finding.blame.code.strip():
        yield f"| {clip(clean(finding.blame.code.strip()))}"
    yield f"on {', '.join(map(clean, group.machines))}"
    yield f"in {_subjects(group.subjects)}"
    if group.contracts:
        yield f"breaks {', '.join(map(clean, group.contracts))}"
    for link in finding.chain[:_MOST_LINKS]:
        if not finding.blame or str(link) != str(finding.blame):
            yield f"by way of {clip(clean(str(link)))}"


def _subjects(subjects: tuple[str, ...]) -> str:
    first = clip(clean(subjects[0]))
    return first if len(subjects) == 1 else f"{first} and {len(subjects) - 1} more"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
