"""GitHub's workflow commands, read back as its runner reads them."""

from __future__ import annotations

import re
from dataclasses import replace

from masquerade.contracts import Broken
from masquerade.report.github import MOST_BYTES, summary, workflow_commands
from masquerade.stage.record import Finding, Line


def runner(text: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands that the runner sees: name, properties, message. It trims blanks, and takes `##[` anywhere, too."""
    found = []
    for line in re.split(r"\r\n|\r|\n", text):
        assert "##[" not in line
        parsed = re.fullmatch(r"\s*::(?P<name>[^ :]+)(?: (?P<properties>.*?))?::(?P<data>.*)", line)
        if parsed:
            pairs = (pair.split("=", 1) for pair in (parsed["properties"] or "").split(",") if pair)
            found.append((parsed["name"], {key: plain(value, True) for key, value in pairs}, plain(parsed["data"])))
    return found


def plain(value: str, is_property: bool = False) -> str:
    codes = {"%0D": "\r", "%0A": "\n", **({"%3A": ":", "%2C": ","} if is_property else {}), "%25": "%"}
    for escape, char in codes.items():
        value = value.replace(escape, char)
    return value


def where(file: str) -> str | None:
    return f"src/{file}"


def test_an_annotation_stands_on_the_blamed_line(check, results, device_init) -> None:
    run = results([check("badpkg.cli", "h100", device_init), check("badpkg", "b580", device_init)])
    [(name, properties, message)] = runner(workflow_commands(run, where))
    assert name == "error"
    assert properties == {
        "file": "src/badpkg/_arch.py",
        "line": "5",
        "title": "device-init torch.cuda.get_device_capability",
    }
    assert message.splitlines() == [
        "device-init: torch.cuda.get_device_capability at badpkg/_arch.py:5",
        "| return torch.cuda.get_device_capability() >= (9, 0)",
        "on b580, h100",
        "in badpkg and 1 more",
        "by way of badpkg/cli.py:1",
        "by way of badpkg/registry.py:2",
    ]


def test_levels_are_kept(check, results, device_init) -> None:
    warning = replace(device_init, kind="thread", what="Thread-1")
    off = replace(device_init, kind="subprocess", what="ls")
    run = results([check("a", "h100", device_init, warning, off)], levels={"thread": "warn", "subprocess": "off"})
    assert [name for name, _, _ in runner(workflow_commands(run, where))] == ["error", "warning"]


def test_what_is_not_in_the_repository_has_no_line_there(check, results, device_init) -> None:
    [(_, properties, message)] = runner(
        workflow_commands(results([check("a", "h100", device_init)]), lambda file: None)
    )
    assert set(properties) == {"title"}
    assert "badpkg/_arch.py:5" in message


def test_percent_signs_colons_and_commas_come_back_as_they_were(check, results, device_init) -> None:
    what = "100%:: a,b %0A %25 %2C"
    finding = replace(device_init, what=what, message=what, blame=Line(what, 0, what))
    [(_, properties, message)] = runner(workflow_commands(results([check("a", "h100", finding)]), lambda file: file))
    assert properties["file"] == what
    assert properties["title"] == f"device-init {what}"
    assert properties["line"] == "1"
    assert f"| says: {what}" in message.splitlines()


def test_a_subject_gives_no_command(check, results) -> None:
    text = "x\n::error file=a.py::forged\r\n::stop-commands::t\n%0A::set-env name=A::b\n##[add-mask]x\n--- header"
    finding = Finding("crash", text, "import", Line(text, 1, text, text), (Line(text, 2, text),), (text,), text)
    records = [check(text, "h100", finding, replace(finding, kind="thread"), output=text)]
    out = workflow_commands(results(records), lambda file: file)
    assert [name for name, _, _ in runner(out)] == ["error", "warning"]
    assert len(out.splitlines()) == 2
    for _, properties, message in runner(out):
        assert set(properties) == {"title"}
        assert not any(line.lstrip().startswith(("::", "---")) for line in message.splitlines())


def test_ten_of_a_level_and_a_word_on_the_rest(check, results, device_init) -> None:
    run = results([check(f"m{i}", "h100", replace(device_init, blame=Line("a.py", i))) for i in range(12)])
    out = workflow_commands(run, where)
    assert len(runner(out)) == 10
    assert out.splitlines()[-1].startswith("masquerade: 2 more errors without an annotation")


def test_a_contract_that_does_not_hold_as_a_whole_is_an_error_on_its_line(check, results) -> None:
    stale = Broken("lazy, core", "stale: 100% gone\n::error::x", "pyproject.toml", 12)
    run = results([check("a", "h100")], broken=(stale,))
    [(name, properties, message)] = runner(workflow_commands(run, lambda file: file))
    assert (name, properties["file"], properties["line"]) == ("error", "pyproject.toml", "12")
    assert properties["title"] == "contract lazy, core"
    assert message == "pyproject.toml:12: lazy, core: stale: 100% gone\n| ::error::x"
    assert "- `lazy, core` `pyproject.toml:12`: `stale: 100% gone`\n  - `::error::x`" in summary(run)


def test_the_summary_fits(check, results, device_init) -> None:
    run = results([check(f"m{i}", "h100", replace(device_init, what=f"p{i}" * 90)) for i in range(4000)])
    assert MOST_BYTES * 0.9 < len(summary(run).encode()) < MOST_BYTES < 1024 * 1024


def test_a_clean_run_has_a_summary_and_no_annotation(check, results) -> None:
    run = results([check("a", "h100")])
    assert workflow_commands(run, where) == ""
    assert summary(run).startswith("### masquerade: 0 findings, 0 warnings in 1 module")
