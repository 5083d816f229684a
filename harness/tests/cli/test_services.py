"""Reports to GitHub and Buildkite: where they go, and what happens where they cannot."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from masquerade.cli.services import repository


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """These tests may themselves run in a CI job."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "BUILDKITE_STEP_KEY", "BUILDKITE_LABEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def faulty(stage, probe, tmp_path):
    """A package whose module asks for a device; its file is in this repository."""
    stage.findings[("pkg.kern", "h100")] = (probe,)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/kern.py").write_text("import torch\n\nCAP = torch.cuda.get_device_capability()\n")


def agent(tmp_path: Path, script: str) -> None:
    program = tmp_path / "bin/buildkite-agent"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)


def test_github_gets_annotations_in_the_log_and_a_summary_in_its_file(
    masquerade, faulty, monkeypatch, tmp_path
) -> None:
    (tmp_path / "summary.md").write_text("another tool's\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "github")
    assert done.exit_code == 1
    [command] = re.findall("^::.*", done.stdout, re.M)
    assert command.startswith("::error file=pkg/kern.py,line=3,title=device-init torch.cuda.get_device_capability::")
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("another tool's\n### masquerade: 1 finding")
    assert "3 modules" in done.stdout, "the report for people is there, too"


def test_elsewhere_than_on_github_there_is_no_summary(masquerade, faulty, tmp_path) -> None:
    before = sorted(tmp_path.iterdir())
    assert masquerade("scan", "pkg", "--on", "cuda", "--report", "github").exit_code == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_report_on_standard_output_is_alone_there(masquerade, faulty) -> None:
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "github", "--report", "json:-")
    assert json.loads(done.stdout)["summary"]["failed"] == 1
    assert "::error file=pkg/kern.py" in done.stderr, "the runner reads that stream as well"


def test_a_summary_that_cannot_be_written_is_kept_and_told(masquerade, faulty, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "gone/summary.md"))
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "github")
    assert done.exit_code == 3
    kept = re.search(r"It is in (\S+\.md)", done.stderr)
    assert kept is not None
    assert Path(kept[1]).read_text().startswith("### masquerade: 1 finding")
    Path(kept[1]).unlink()
    assert "::error" in done.stdout


def test_the_build_is_annotated_by_its_agent(masquerade, faulty, monkeypatch, tmp_path) -> None:
    agent(tmp_path, f'echo "$@" > {tmp_path}/words; /bin/cat > {tmp_path}/body')
    monkeypatch.setenv("BUILDKITE_STEP_KEY", "imports")
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "buildkite")
    assert done.exit_code == 1
    assert (tmp_path / "words").read_text() == "annotate --style error --context masquerade-imports\n"
    assert (tmp_path / "body").read_text().startswith("### masquerade: 1 finding")
    assert "####" not in done.stdout


def test_without_an_agent_the_annotation_is_in_the_log(masquerade, faulty) -> None:
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "buildkite")
    assert "#### device-init: `torch.cuda.get_device_capability`\n" in done.stdout


def test_an_agent_that_fails_loses_nothing(masquerade, faulty, tmp_path) -> None:
    agent(tmp_path, 'echo "no token" >&2; exit 1')
    done = masquerade("scan", "pkg", "--on", "cuda", "--report", "buildkite")
    assert done.exit_code == 3
    assert "buildkite-agent annotate failed: no token" in done.stderr
    kept = re.search(r"It is in (\S+\.md)", done.stderr)
    assert kept is not None and Path(kept[1]).read_text().startswith("### masquerade")
    Path(kept[1]).unlink()


def test_a_service_takes_no_file(masquerade) -> None:
    done = masquerade("scan", "pkg", "--report", "github:out.txt")
    assert done.exit_code == 2
    assert "github takes no file; write github" in done.stderr


def test_an_unknown_kind_names_the_services_too(masquerade) -> None:
    done = masquerade("scan", "pkg", "--report", "githb")
    assert done.exit_code == 2
    assert "did you mean github?" in done.stderr


def test_a_command_keeps_its_standard_output(masquerade, stage, probe) -> None:
    stage.findings[("train.py", "h100")] = (probe,)
    done = masquerade("run", "--as", "h100", "--report", "github", "--", "train.py")
    assert done.stdout == ""
    assert "::error" in done.stderr


def test_more_results_than_an_upload_holds_are_several_files(masquerade, stage, tmp_path) -> None:
    stage.packages["pkg"] = tuple(f"pkg.m{i}" for i in range(2501))
    assert (
        masquerade("scan", "pkg", "--on", "cuda,rocm", "--report", f"test-engine:{tmp_path / 'r.json'}").exit_code == 0
    )
    assert [len(json.loads((tmp_path / name).read_text())) for name in ("r.json", "r-2.json")] == [5000, 2]


def test_reports_that_a_service_links_from_have_the_paths_of_the_repository(masquerade, faulty, tmp_path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "pkg").rename(tmp_path / "src/pkg")
    reports = [f"--report={kind}:{tmp_path / kind}" for kind in ("junit", "test-engine", "json")]
    assert masquerade("scan", "pkg", "--path", "src", "--on", "cuda", *reports).exit_code == 1
    (case,) = [case for case in ET.parse(tmp_path / "junit").iter("testcase") if len(case)]
    assert (case.get("file"), case.get("line")) == ("src/pkg/kern.py", "3")
    assert "at src/pkg/kern.py:3" in (case.findtext("failure") or "")
    (row,) = [row for row in json.loads((tmp_path / "test-engine").read_text()) if row["result"] == "failed"]
    assert (row["file_name"], row["location"]) == ("src/pkg/kern.py", "src/pkg/kern.py:3")
    (found,) = [found for check in json.loads((tmp_path / "json").read_text())["checks"] for found in check["findings"]]
    assert found["blame"]["file"] == "pkg/kern.py", "as the package names it"


def test_files_are_found_in_the_repository_and_nowhere_else(tmp_path, monkeypatch) -> None:
    work = tmp_path / "work"
    (work / "src/pkg").mkdir(parents=True)
    (work / "src/pkg/a.py").touch()
    (tmp_path / "outside.py").touch()
    (tmp_path / "installed/pkg").mkdir(parents=True)
    (tmp_path / "installed/pkg/a.py").touch()
    (work / "link.py").symlink_to(tmp_path / "outside.py")
    monkeypatch.chdir(work)
    locate = repository({"GITHUB_WORKSPACE": str(work)}, (str(tmp_path / "installed"), str(work / "src")))
    assert locate("pkg/a.py") == "src/pkg/a.py"
    for service in ("CI_PROJECT_DIR", "BUILDKITE_BUILD_CHECKOUT_PATH", "WORKSPACE"):
        assert repository({service: str(tmp_path)}, (str(work / "src"),))("pkg/a.py") == "work/src/pkg/a.py"
    elsewhere = {"WORKSPACE": str(tmp_path / "installed"), "CI_PROJECT_DIR": ""}
    assert repository(elsewhere, (str(work / "src"),))("pkg/a.py") == "src/pkg/a.py"
    assert locate("src/pkg/a.py") == "src/pkg/a.py"
    assert locate(str(work / "src/pkg/a.py")) == "src/pkg/a.py"
    foreign = ("../outside.py", "link.py", str(tmp_path / "outside.py"), "pkg", "nothere.py", "", "\0", "x" * 5000)
    assert [locate(file) for file in foreign] == [None] * len(foreign)
