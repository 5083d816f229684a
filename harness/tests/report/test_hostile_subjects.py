"""What real hostile packages print and raise does nothing: they are scanned here, and every report is read back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from cases import FIXTURES
from pages import read

from masquerade.report.json_report import schema


@pytest.fixture(scope="module", params=["i29_forged_text_report", "i31_workflow_command_in_message"])
def scanned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, int]:
    """Standard output of a scan with every report, the folder of the files, and the exit status."""
    out = tmp_path_factory.mktemp("reports")
    case = FIXTURES / "hostile" / request.param
    words = ["json:r.json", "junit:r.xml", "test-engine:t.json", "github", "buildkite"]
    reports = [word for report in words for word in ("--report", report)]
    environ = {**os.environ, "GITHUB_STEP_SUMMARY": str(out / "summary.md"), "GITHUB_WORKSPACE": str(case)}
    environ["PATH"] = os.pathsep.join(["/usr/bin", "/bin"])  # no buildkite-agent: the annotation is in the log
    done = subprocess.run(
        [sys.executable, "-m", "masquerade", "scan", "brkpkg", "--path", str(case), "--on", "cuda,cpu", *reports],
        capture_output=True, text=True, cwd=out, env=environ, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, out, done.returncode


def test_the_log_holds_our_commands_alone(scanned) -> None:
    log, _, status = scanned
    commands = [line for line in log.splitlines() if line.lstrip().startswith("::") or "##[" in line]
    assert len(commands) == status
    assert all(
        line.startswith("::error file=brkpkg/mod.py,line=1,title=import-error ValueError::") for line in commands
    )
    assert not re.search(r"^\s*(---|\+\+\+|~~~|\^\^\^)", log, re.M)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", log)


def test_the_verdicts_are_ours(scanned) -> None:
    _, out, status = scanned
    report = json.loads((out / "r.json").read_text())
    jsonschema.validate(report, schema())
    assert report["summary"]["verdicts"] == ({"import-error": 2, "ok": 2} if status else {"ok": 4})
    assert ET.parse(out / "r.xml").getroot().get("failures") == str(2 * status)
    assert {row["result"] for row in json.loads((out / "t.json").read_text())} == {"passed", *["failed"] * status}


def test_the_summary_is_markup_of_our_own(scanned) -> None:
    _, out, _ = scanned
    page = read((out / "summary.md").read_text())
    assert not {"img", "a", "script", "pre"} & {tag for tag, _ in page.tags}
    assert [tag for tag, _ in page.tags].count("table") == 1
