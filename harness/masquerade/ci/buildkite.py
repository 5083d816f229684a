"""A pipeline of Buildkite: a step for each job; lanes of hardware name their agents' queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.ci.commands import PAGE, Commands
from masquerade.ci.plan import Job

_MINUTES = 60

#: An agent that was lost says nothing of the code. Source: Buildkite's documentation of retries, exit status -1.
_RETRY = {"automatic": [{"exit_status": -1, "limit": 2}]}

_SCHEDULED = 'build.source == "schedule" || build.source == "ui"'


def pipeline(jobs: Sequence[Job], commands: Commands, queue: str, scheduled: bool = False) -> dict[str, Any]:
    """The pipeline as plain values. `queue` is that of the jobs without hardware; the default one where it is empty.

    With `scheduled` the steps run in builds of a schedule and in those that somebody starts, and not for pushes.

    Sources: Buildkite's documentation of command steps, and of conditionals (build.source).
    """
    steps = [_step(job, place, commands, queue) for place, job in enumerate(jobs, start=1)]
    return {"steps": [{**step, "if": _SCHEDULED} for step in steps] if scheduled else steps}


def _step(job: Job, place: int, commands: Commands, queue: str) -> dict[str, Any]:
    of_tox = commands.source == "tox"
    preparation = () if of_tox else ("python3 -m venv .venv", *commands.preparation(".venv/bin/python"))
    lines = [*preparation, commands.run(job, "buildkite", ".venv/bin/masquerade")]
    chosen = job.hardware.queue if job.hardware else queue
    step: dict[str, Any] = {
        "label": job.title,
        "key": f"hardware-{_key(job.names[0])}" if job.hardware else f"checks-{place}",
        "command": lines[0] if len(lines) == 1 else lines,
        "agents": {"queue": chosen},
        "timeout_in_minutes": _MINUTES,
        "retry": _RETRY,
    }
    if not chosen:
        del step["agents"]
    if not of_tox:
        step["artifact_paths"] = PAGE
    return step


def _key(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in name)
