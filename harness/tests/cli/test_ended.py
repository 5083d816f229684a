"""A run that is told to end ends in order: what is known is told, and no process and no file is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import below, end

#: Two modules; the second one says that it runs, and waits.
FILES = {"slow/__init__.py": "", "slow/z.py": "open(__file__ + '.started', 'w').close()\nimport time; time.sleep(60)\n"}


def started(folder: Path, temporary: Path, ignored: str = "") -> subprocess.Popen[str]:
    """A scan of `FILES` whose second check has begun. `ignored` is a signal that it finds ignored, as under nohup."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    words = ["scan", "slow", "--path", str(folder), "--on", "h100", "-j", "1", "--report", f"json:{folder / 'r.json'}"]
    # A test run may ignore signals, as one in the background does; this one may not.
    ways = {name: "SIG_IGN" if name == ignored else "SIG_DFL" for name in ("SIGTERM", "SIGHUP", "SIGINT")}
    ways |= {} if ignored == "SIGINT" else {"SIGINT": "default_int_handler"}
    handled = "".join(f"signal.signal(signal.{name}, signal.{way})\n" for name, way in ways.items())
    source = f"import signal\n{handled}from masquerade.cli import main; main({words!r}, prog_name='masquerade')"
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)}, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (folder / "slow/z.py.started").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    return process


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_what_is_known_is_told_and_nothing_is_left(tmp_path: Path, temporary: Path, name: str, status: int) -> None:
    process = started(tmp_path, temporary)
    try:
        processes = below(process.pid)
        assert processes and list(temporary.iterdir())
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == status, err
    assert "Interrupted: 0 findings" in out and "1 of 2 checks" in out and "Traceback" not in err
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["interrupted"], report["summary"]["checks"]) == (True, 1)
    assert end(processes) == set()
    assert list(temporary.iterdir()) == []


def test_a_second_signal_breaks_the_end_not_off(tmp_path: Path, temporary: Path) -> None:
    process = started(tmp_path, temporary)
    try:
        for _ in range(20):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
    assert list(temporary.iterdir()) == []


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path, temporary: Path) -> None:
    process = started(tmp_path, temporary, ignored="SIGHUP")
    try:
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
