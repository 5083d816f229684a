"""`masquerade report`: shards as one report, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def shards(masquerade, stage, probe, tmp_path: Path) -> list[str]:
    """Two reports of one package: h100, where a finding is, and b580."""
    stage.findings["pkg.kern", "h100"] = (probe,)
    files = [str(tmp_path / f"{machine}.json") for machine in ("h100", "b580")]
    for file in files:
        masquerade("scan", "pkg", "--on", Path(file).stem, "--report", f"json:{file}")
    return files


def test_shards_are_told_as_one_run(masquerade, shards) -> None:
    done = masquerade("report", *shards)
    assert done.exit_code == 1
    assert "1 finding, 0 warnings in 3 modules on 2 machines: 6 checks" in done.stdout


def test_a_report_in_another_form(masquerade, shards, tmp_path: Path) -> None:
    done = masquerade("report", shards[1], "--report", f"html:{tmp_path / 'r.html'}", "--report", "json:-")
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["checks"]) == 3
    assert "pkg.kern" in (tmp_path / "r.html").read_text()


def test_a_run_that_was_cut_short_is_no_success(masquerade, shards) -> None:
    document = json.loads(Path(shards[1]).read_text())
    document["summary"]["planned"] += 1
    Path(shards[1]).write_text(json.dumps(document))
    assert masquerade("report", shards[1]).exit_code == 1


def test_nothing_checked_is_never_0(masquerade, shards) -> None:
    document = json.loads(Path(shards[1]).read_text())
    document["checks"] = []
    Path(shards[1]).write_text(json.dumps(document))
    done = masquerade("report", shards[1])
    assert (done.exit_code, "nothing to report" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_not_there(masquerade, tmp_path: Path, name: str) -> None:
    done = masquerade("report", str(tmp_path / name))
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


def test_what_is_no_report(masquerade, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"\xff\x00")
    done = masquerade("report", str(tmp_path / "r.json"))
    assert (done.exit_code, "r.json is not JSON" in done.stderr) == (2, True)
