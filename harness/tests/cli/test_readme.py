"""The README tells the truth: its example is what the tool prints, and CI runs its test command to the letter."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="not run from the repository")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_example_is_what_the_tool_prints() -> None:
    [block] = re.findall(r"^    \$ masquerade (.+)\n\n((?:    .*\n|\n)+?)(?=^\S)", README.read_text(), re.M)
    words, shown = block
    done = subprocess.run(
        [sys.executable, "-m", "masquerade", *shlex.split(words)], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.returncode == 1, done.stderr
    printed = [line.strip() for line in done.stdout.splitlines()]
    missing = [line for line in shown.splitlines() if line.strip() and line.strip() not in printed]
    assert missing == []


def test_ci_runs_the_second_command_to_the_letter() -> None:
    commands = [line for line in README.read_text().splitlines() if line.startswith("python3.11 -m venv")]
    assert len(commands) == 2
    ci = [line.strip() for line in (ROOT / ".ci/run").read_text().splitlines()]
    assert commands[1] in ci
