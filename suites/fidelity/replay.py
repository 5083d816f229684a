"""Asks a faked machine what a recording asked the real one: the same code, run in disguise, and watched."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from masquerade.machines import Machine
from masquerade.stage import Check, Stage
from masquerade.stage.run_as import run_as

from .recorder.probes import Probe, load

HERE = Path(__file__).parent

#: Imported as a module for each probe, so that masquerade judges it alone.
_MODULE = """\
from recorder import steps

for answer in steps.run_all({steps!r}):
    pass
"""


class Replay(NamedTuple):
    """What a faked machine answered, by the line of the probe, and how far masquerade saw each reach."""

    rows: dict[str, dict[str, Any]]
    touch: dict[str, str]


def installed(python: str, package: str) -> str | None:
    """The release of a package beside `python`, without the build's name; None where it is not installed."""
    code = f"import importlib.metadata as m; print(m.version({package!r}).partition('+')[0])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def replay(machine: Machine, python: str, ids: Iterable[str], folder: Path) -> Replay:
    """Both ways of asking: `masquerade run` with the recorder as its command, and a check of its own for each probe."""
    wanted = set(ids)
    chosen = [probe for probe in load() if probe.id in wanted]
    return Replay(_answers(machine, python, chosen, folder), _touches(machine, python, chosen, folder))


def _answers(machine: Machine, python: str, chosen: list[Probe], folder: Path) -> dict[str, dict[str, Any]]:
    file = folder / "faked.json"
    command = [python, str(HERE / "record.py"), "-o", str(file), "--limit", "60", "--total", "900"]
    for probe in chosen:
        command += ["--only", probe.id]
    run_as(machine, command)
    rows: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["probes"]
    return rows


def _touches(machine: Machine, python: str, chosen: list[Probe], folder: Path) -> dict[str, str]:
    """How far each probe reached. Left out are those whose forked children reach further than they do themselves."""
    uuid = str(machine.to_json()["devices"][0]["uuid"]) if machine.to_json()["devices"] else None
    subjects: dict[str, str] = {}
    checks = []
    for number, probe in enumerate(probe for probe in chosen if "forked(" not in probe.id):
        subjects[name := f"probe_{number:04}"] = probe.id
        (folder / f"{name}.py").write_text(_MODULE.format(steps=probe.steps), encoding="utf-8")
        checks.append(Check(name, machine, env=probe.environment(uuid) or {}, path=(str(folder), str(HERE))))
    with Stage(python, jobs=os.cpu_count() or 1) as stage:
        return {subjects[record.subject]: record.touch for record in stage.run_all(checks)}
