"""A workflow of GitHub Actions: one matrix of jobs, and a job for each lane of hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.ci import pins
from masquerade.ci.commands import PAGE, Commands, selection
from masquerade.ci.emit import Said
from masquerade.ci.plan import Job

_MINUTES = 60

#: Code from a fork never runs on a project's own machines.
_NO_FORK = "github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository"


def pipeline(
    jobs: Sequence[Job], commands: Commands, pythons: Sequence[str], runner: str, branch: str, schedule: str = ""
) -> dict[str, Any]:
    """The workflow as plain values. With `schedule`, as cron has it, it runs then and not for pushes.

    Nothing of the matrix is written into a script: it goes there as an environment variable. A job may read the
    repository and nothing else, and leaves no token behind.

    Sources: GitHub's workflow syntax, and its guide to secure use.
    """
    shared = [job for job in jobs if job.hardware is None]
    made: dict[str, Any] = {}
    if shared:
        made["checks"] = _matrix(shared, commands, pythons, runner)
    for job in jobs:
        if job.hardware:
            made[f"hardware-{job.names[0].replace('.', '-').replace('+', '-')}"] = _lane(job, commands)
    pushed: dict[str, Any] = {"push": {"branches": [branch]}, "pull_request": {}}
    return {
        "name": "masquerade, scheduled" if schedule else "masquerade",
        "on": {**({"schedule": [{"cron": schedule}]} if schedule else pushed), "workflow_dispatch": {}},
        "permissions": {},
        "concurrency": {
            "group": "${{ github.workflow }}-${{ github.ref }}",
            "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
        },
        "jobs": made,
    }


def _matrix(jobs: Sequence[Job], commands: Commands, pythons: Sequence[str], runner: str) -> dict[str, Any]:
    of_tox = commands.source == "tox"
    run = commands.environments('"$WHAT"', python="python") if of_tox else commands.contracts('"$WHAT"', "github")
    steps = [
        _checkout(),
        {"uses": _pinned("actions/setup-python"), "with": {"python-version": "\n".join(pythons)}},
        *({"run": line} for line in commands.preparation("python")),
        {"run": run, "env": {"WHAT": "${{ matrix.what }}"}},
    ]
    if not of_tox:
        steps.append(_page())
    include = [{"name": job.title, "what": ",".join(job.names) if of_tox else selection(job)} for job in jobs]
    return {
        "name": "${{ matrix.name }}",
        "runs-on": runner,
        "timeout-minutes": _MINUTES,
        "permissions": {"contents": Said("read", "to check it out")},
        "strategy": {"fail-fast": False, "matrix": {"include": include}},
        "steps": steps,
    }


def _lane(job: Job, commands: Commands) -> dict[str, Any]:
    assert job.hardware is not None
    return {
        "name": job.title,
        "if": _NO_FORK,
        "runs-on": ["self-hosted", job.hardware.queue],
        "timeout-minutes": _MINUTES,
        "permissions": {"contents": Said("read", "to check it out")},
        "steps": [_checkout(), {"run": commands.run(job, "github")}],
    }


def _checkout() -> dict[str, Any]:
    return {"uses": _pinned("actions/checkout"), "with": {"persist-credentials": False}}


def _page() -> dict[str, Any]:
    where = {"name": "masquerade-${{ strategy.job-index }}", "path": PAGE}
    return {"if": "${{ !cancelled() }}", "uses": _pinned("actions/upload-artifact"), "with": where}


def _pinned(action: str) -> Said:
    commit, tag = pins.ACTIONS[action]
    return Said(f"{action}@{commit}", tag)
