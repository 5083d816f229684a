"""A report is refused early or written whole; once made it is not lost."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest


@pytest.mark.parametrize("gone", [BrokenPipeError, SystemExit])
def test_a_reader_who_goes_away_loses_no_report(masquerade, stage, tmp_path, monkeypatch, gone) -> None:
    def show(*args: object, **kwargs: object) -> None:
        raise gone()

    monkeypatch.setattr("masquerade.report.terminal.show", show)
    masquerade("scan", "pkg", "--report", f"json:{tmp_path / 'r.json'}")
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["checks"] == 12


def test_a_directory_is_refused_before_any_check(masquerade, stage, tmp_path) -> None:
    done = masquerade("scan", "pkg", "--report", f"json:{tmp_path}")
    assert done.exit_code == 2
    assert "it is a directory; name a file in it" in done.stderr
    assert stage.checks == []


def test_the_trial_leaves_nothing_and_changes_nothing(masquerade, tmp_path) -> None:
    old = tmp_path / "old.json"
    old.write_text("kept")
    done = masquerade("scan", "nothere", "--report", f"json:{old}", "--report", f"junit:{tmp_path / 'new.xml'}")
    assert done.exit_code == 2
    assert old.read_text() == "kept"
    assert [file.name for file in tmp_path.iterdir()] == ["old.json"]


def test_an_old_report_is_replaced_and_keeps_its_mode_and_its_link(masquerade, tmp_path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert masquerade("scan", "pkg", "--report", f"json:{link}").exit_code == 0
    assert link.is_symlink() and real.read_text().startswith("{")
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 2


def test_a_new_report_has_the_mode_of_any_new_file(masquerade, tmp_path) -> None:
    masquerade("scan", "pkg", "--report", f"json:{tmp_path / 'r.json'}")
    (tmp_path / "other").touch()
    assert (tmp_path / "r.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_target_that_is_gone_at_the_end_loses_nothing(masquerade, stage, tmp_path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    first, second = folder / "r.json", tmp_path / "r.xml"
    walk = stage.run_all

    def run_all(checks):  # the subject removes the folder while it runs
        yield from walk(checks)
        folder.rmdir()

    stage.run_all = run_all
    done = masquerade("scan", "pkg", "--report", f"json:{first}", "--report", f"junit:{second}")
    assert done.exit_code == 3
    kept = re.search(r"It is in (\S+)", done.stderr)
    assert kept is not None and Path(kept[1]).read_text().startswith("{")
    os.unlink(kept[1])
    assert second.exists(), "the other report is written all the same"
    assert "3 modules in all" in done.stdout, "and so is the terminal's"


def test_a_pipe_is_written_and_stays_a_pipe(masquerade, tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    try:
        assert masquerade("scan", "pkg", "--report", f"json:{pipe}").exit_code == 0
        said, _ = reader.communicate(timeout=30)
    finally:
        reader.kill()
    assert len(json.loads(said)["checks"]) == 12
    assert pipe.is_fifo()


def test_a_report_that_can_be_written_nowhere_is_told_in_one_line(masquerade, stage, tmp_path, monkeypatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    walk = stage.run_all

    def run_all(checks):  # the disk gets full while it runs
        yield from walk(checks)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))

    stage.run_all = run_all
    try:
        done = masquerade("scan", "pkg", "--report", f"json:{tmp_path / 'r.json'}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.exit_code == 3 and "Traceback" not in done.stderr
    both = "File too large. It could not be kept in the temporary folder either: File too large"
    assert f"cannot write the json report to {tmp_path / 'r.json'}: {both}" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["tmp"] and list((tmp_path / "tmp").iterdir()) == []
