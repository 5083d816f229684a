"""The command line with the real stage behind it: on a case of the fixtures, from the outside."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from masquerade.report.json_report import schema

FIXTURES = Path(__file__).parents[3] / "fixtures"
CASES = FIXTURES / "cases"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fork server needs Linux")

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def masquerade(*words: str, **how) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "masquerade", *words], capture_output=True, text=True, timeout=300, **how
    )


@needs_torch
def test_a_transitive_probe_is_found_from_every_module_and_told_once(tmp_path) -> None:
    report = tmp_path / "report.json"
    done = masquerade("scan", "badpkg", "--path", str(CASES / "a09_transitive_cli"), "--report", f"json:{report}")
    assert done.returncode == 1, done.stderr
    told = done.stdout[done.stdout.index("\ndevice-init ") :].splitlines()
    assert [line for line in told if line.startswith("device-init")] == [
        "device-init  torch.cuda.get_device_properties"
    ]
    assert "  badpkg/layers/_arch.py:5" in told
    assert "      badpkg/registry.py:1      | from badpkg.layers import gemm" in told
    assert told[-1].startswith("1 finding, 0 warnings in 6 modules on 4 machines: 24 checks")

    read = json.loads(report.read_text())
    jsonschema.Draft202012Validator(schema()).validate(read)
    assert read["summary"]["verdicts"] == {"device-init": 24}
    assert read["control"]["verdict"] == "device-init"


def test_a_clean_package_ends_with_0() -> None:
    done = masquerade("scan", "okpkg", "--path", str(CASES / "c02_type_checking"), "--path", str(CASES / "_vendors"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_subject_gets_its_neighbours() -> None:
    done = masquerade("scan", "badpgk.cli", "--path", str(CASES / "a09_transitive_cli"))
    assert done.returncode == 2
    assert "badpkg" in done.stderr and "Traceback" not in done.stderr


def test_a_workflow_command_in_a_message_stays_in_its_line() -> None:
    where = FIXTURES / "hostile" / "i31_workflow_command_in_message"
    done = masquerade("scan", "brkpkg", "--path", str(where), "--on", "cuda")
    assert done.returncode == 1
    assert not [line for line in done.stdout.splitlines() if line.lstrip().startswith(("::", "---"))]


def children(pid: int) -> set[int]:
    """The processes below `pid`, of any depth."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    below: set[int] = {pid}
    while grown := {child for child, parent in parents.items() if parent in below} - below:
        below |= grown
    return below - {pid}


def test_ctrl_c_tells_what_is_known_and_leaves_no_process(tmp_path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/__init__.py").write_text("")
    (tmp_path / "slow/z.py").write_text("print(open(__file__ + '.started', 'w'))\nimport time; time.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "masquerade", "scan", "slow", "--path", str(tmp_path), "--on", "cpu", "-j", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "slow/z.py.started").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        below = children(process.pid)
        assert below
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Interrupted: 0 findings, 0 warnings in 1 module on 1 machine: 1 of 2 checks" in out
    assert "Traceback" not in err
    deadline = time.monotonic() + 10
    while alive := {pid for pid in below if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


@needs_torch
@pytest.mark.parametrize("status", [0, 4])
def test_a_command_in_disguise_keeps_its_streams_and_status(status) -> None:
    code = f"import torch, sys; print(torch.cuda.get_device_properties(0).name, sys.stdin.read()); sys.exit({status})"
    done = masquerade("run", "--as", "mi355x", "--", sys.executable, "-c", code, input="said")
    assert (done.returncode, done.stdout) == (status, "AMD Instinct MI355X said\n"), done.stderr
    assert "as mi355x in" in done.stderr.splitlines()[-1]


def test_the_doctor_makes_the_positive_control_on_the_real_stage() -> None:
    done = masquerade("doctor", "--json")
    assert done.returncode == 0, done.stderr
    stages = [ability for ability in json.loads(done.stdout)["abilities"] if ability["kind"] == "stage"]
    assert [stage["able"] for stage in stages] == [True, True]
    assert all("the positive control was seen" in stage["why"] for stage in stages)
