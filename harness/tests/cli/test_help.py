"""The command line starts at once: it loads neither torch nor what only printing needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = """
import sys
from masquerade.cli import main
try:
    main({words!r}, prog_name="masquerade")
except SystemExit as end:
    assert not end.code, end.code
heavy = ("torch", "rich", "masquerade.stage", "masquerade.report", "masquerade.machines", "masquerade.fakes")
print("LOADED", *(name for name in heavy if name in sys.modules))
"""


@pytest.mark.parametrize("words", [["--help"], ["scan", "--help"], ["run", "-h"], ["--version"]])
def test_help_loads_neither_torch_nor_rich_nor_the_stage(words) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(words=words)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_the_commands_that_there_are(masquerade) -> None:
    done = masquerade("--help")
    assert done.exit_code == 0
    listed = [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()]
    assert listed == ["scan", "check", "run", "report", "diff", "machines", "ci", "doctor"]
    assert "130" in done.stdout, "the exit statuses are documented"


def test_a_misspelt_command_ends_with_2(masquerade) -> None:
    done = masquerade("scann", "pkg")
    assert done.exit_code == 2
    assert "scann" in done.stderr


def test_an_unprintable_name_does_not_end_the_report() -> None:
    """A log in ASCII gets escapes where a name cannot be shown."""
    code = """
import click
from masquerade.cli import main

@main.command()
def shout():
    from rich.console import Console
    Console().print("h\u00e9llo")

main(["shout"])
"""
    env = {"PYTHONIOENCODING": "ascii:strict", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (0, "h\\xe9llo\n"), done.stderr
