"""Fakes change the process that wears them, so each is tested in a fresh one, with a machine of the zoo."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from masquerade import machines

HARNESS = str(Path(machines.__file__).parents[2])

#: The interpreter that wears the fakes: tox gives others than pytest's own.
PYTHON = os.environ.get("MASQUERADE_TEST_PYTHON", sys.executable)

PRELUDE = f"""\
import json, os, sys
sys.path.insert(0, {HARNESS!r})
from masquerade.fakes.world import NoAnswerError, UnknownValueError, World
with open(sys.argv[1]) as _file:
    world = World(json.load(_file))
answer = {{}}

def error(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except BaseException as caught:
        return type(caught).__name__ + ": " + str(caught)
    return "no error"
"""


def document(name: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A machine of the zoo as the child gets it, with leaves at dotted keys changed."""
    out: dict[str, Any] = copy.deepcopy(machines.resolve(name).to_json())
    for key, value in (changes or {}).items():
        *above, last = key.split(".")
        place: Any = out
        for part in above:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        place[last] = value
    return out


Child = Callable[..., dict[str, Any]]


@pytest.fixture
def machine() -> Callable[..., dict[str, Any]]:
    return document


@pytest.fixture
def child(tmp_path: Path) -> Child:
    """Run code in a process of its own; what it puts into `answer` comes back."""

    def run(
        code: str,
        machine: str | dict[str, Any] = "h100",
        changes: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        path: list[Path] | None = None,
    ) -> dict[str, Any]:
        described = machine if isinstance(machine, dict) else document(machine, changes)
        file = tmp_path / "machine.json"
        file.write_text(json.dumps(described))
        script = tmp_path / "child_script.py"
        entries = "".join(f"sys.path.insert(0, {str(entry)!r})\n" for entry in path or [])
        script.write_text(PRELUDE + entries + code + "\nprint('\\n' + json.dumps(answer, default=repr))\n")
        environ = {key: value for key, value in os.environ.items() if not key.endswith("VISIBLE_DEVICES")}
        done = subprocess.run(
            [PYTHON, str(script), str(file)],
            env={**environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run
