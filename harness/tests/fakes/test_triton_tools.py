"""Triton's assemblers are asked for their versions once for all checks in a row; each hears and tells the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.fakes import triton_tools
from masquerade.stage import Check, Record, Stage

SUBJECT = """
import _posixsubprocess
import os
import sys

def versions():
    started, told = [], []
    sys.addaudithook(lambda event, args: told.append(args[1][0]) if event in STARTS else None)
    fork_exec = _posixsubprocess.fork_exec
    import subprocess
    watched = lambda *args: started.append(os.fsdecode(args[0][0])) or fork_exec(*args)
    _posixsubprocess.fork_exec = subprocess._fork_exec = watched  # by the first name on Python 3.10
    subprocess._USE_POSIX_SPAWN = False  # which Python 3.13 would start it by
    from triton import knobs
    from triton.backends.nvidia import compiler
    said = [compiler.get_ptxas_version(80), compiler.get_ptxas_version(100), knobs.nvidia.ptxas.version]
    if os.environ.get("OTHER"):
        os.environ["TRITON_PTXAS_PATH"] = os.environ["OTHER"]
        compiler.get_ptxas_version.cache_clear()
        said.append(compiler.get_ptxas_version(80))
    return [said, started, told]

STARTS = ("subprocess.Popen", "os.posix_spawn")
"""

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"subject.py": SUBJECT})
    other = tmp_path / "ptxas"
    other.write_text("#!/bin/sh\necho Cuda compilation tools, release 77.7, V77.7.0\n")
    other.chmod(0o755)
    return tmp_path


def made(stage: Stage, folder: Path, in_a_row: bool, **options: object) -> Record:
    first = ("triton.compiler",) if in_a_row else ()
    checks = [
        Check("subject:versions", machines.resolve("h200"), path=(str(folder),), first=first, label=label, **options)  # type: ignore[arg-type]
        for label in "ab"
    ]
    return list(stage.run_all(checks))[-1]


def test_in_a_row_no_program_is_started_for_it_and_watchers_hear_of_it(one: Stage, folder: Path) -> None:
    said, started, told = made(one, folder, in_a_row=False).result
    assert started == told and len(told) >= 3
    assert made(one, folder, in_a_row=True).result == [said, [], told]


def test_another_assembler_is_asked_itself(one: Stage, folder: Path) -> None:
    env = {"OTHER": str(folder / "ptxas")}
    said, started, told = made(one, folder, in_a_row=True, env=env).result
    assert "77.7" in said[-1]
    assert set(started) == {env["OTHER"]} and env["OTHER"] in told


def test_an_answer_counts_for_one_look_of_the_file_alone(folder: Path) -> None:
    other = folder / "ptxas"
    before = triton_tools._question([str(other), "--version"], {})
    assert before and before == triton_tools._question([str(other), "--version"], {})
    assert before != triton_tools._question([str(other), "--version"], {"stderr": -2})
    assert before != triton_tools._question([str(other), "--help"], {})
    other.write_text(other.read_text().replace("77", "78"))
    assert before != triton_tools._question([str(other), "--version"], {})
    assert not triton_tools._question([str(folder / "none"), "--version"], {})
