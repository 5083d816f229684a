"""Temporary folders: private, gone with their run, and what a killed run left goes with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from masquerade import machines
from masquerade.stage import Stage
from masquerade.stage.folders import HELD, PREFIX, Folder, remove_left

HARNESS = Path(machines.__file__).parents[2]

#: Makes a folder and waits for its end.
HOLDER = "import sys; from masquerade.stage.folders import Folder; f = Folder(); print(f.path, flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def held(temporary: Path):
    """A process that holds a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, "PYTHONPATH": str(HARNESS)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_run_is_its_users_alone(temporary: Path) -> None:
    before = os.umask(0)
    try:
        with Stage(getattr(sys, "_base_executable", sys.executable)) as stage:
            stage.run("json", on="h100")
            (folder,) = temporary.iterdir()
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_a_folder_whose_run_goes_on_stays(held) -> None:
    _, folder = held
    remove_left()
    assert (folder / HELD).exists()


def test_a_folder_whose_run_was_killed_goes_with_the_next(held, temporary: Path) -> None:
    process, folder = held
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert folder.exists()
    mine = Folder()
    assert [str(path) for path in temporary.iterdir()] == [mine.path]
    mine.remove()
    assert list(temporary.iterdir()) == []


def test_a_folder_that_nobody_removed_goes_when_its_process_exits(held, temporary: Path) -> None:
    process, _ = held
    process.communicate("\n")
    assert list(temporary.iterdir()) == []


def test_a_fork_takes_no_folder_along() -> None:
    folder = Folder()
    pid = os.fork()
    if not pid:
        try:
            folder.remove()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert Path(folder.path).exists()
    folder.remove()


def test_what_only_looks_like_ours_stays(temporary: Path, tmp_path: Path) -> None:
    (temporary / f"{PREFIX}notebook").mkdir()  # without the file that we lock
    (temporary / f"{PREFIX}longer_name").mkdir()
    (temporary / f"{PREFIX}longer_name" / HELD).touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / HELD).touch()
    (temporary / f"{PREFIX}abcdefgh").symlink_to(tmp_path / "elsewhere")
    (temporary / f"{PREFIX}hgfedcba").touch()
    before = sorted(temporary.rglob("*"))
    remove_left()
    assert sorted(temporary.rglob("*")) == before and (tmp_path / "elsewhere" / HELD).exists()


def test_another_users_folder_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = temporary / f"{PREFIX}abcdefgh"
    theirs.mkdir()
    (theirs / HELD).touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
        remove_left()
    assert theirs.exists()
    remove_left()
    assert not theirs.exists()


@pytest.mark.parametrize("words", [["scan", "json", "--on", "h100"], ["run", "--as", "h100", "--", "true"]])
def test_no_room_for_a_machines_tools_is_told_in_one_line(temporary: Path, words: list[str]) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    done = subprocess.run(
        [sys.executable, "-c", f"{limited}from masquerade.cli import main; main({words!r}, prog_name='masquerade')"],
        env={**os.environ, "PYTHONPATH": str(HARNESS)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "Error: cannot write the tools of h100 to the temporary folder: File too large; "
        "make room there, or name another folder with TMPDIR"
    )
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []
