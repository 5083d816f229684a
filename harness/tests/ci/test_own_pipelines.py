"""This repository's own pipelines: as masquerade makes them, complete, and right."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.ci.work import tox_environments

ROOT = Path(__file__).resolve().parents[3]
FILES = {"github": ROOT / ".github/workflows/masquerade.yml", "buildkite": ROOT / ".buildkite/pipeline.yml"}
#: What takes long, and has its cause elsewhere, runs at night.
NIGHTLY = {"github": ROOT / ".github/workflows/nightly.yml", "buildkite": ROOT / ".buildkite/nightly.yml"}
ALL = [(service, files[service]) for files in (FILES, NIGHTLY) for service in files]

each_file = pytest.mark.parametrize(("service", "file"), ALL, ids=[str(file.relative_to(ROOT)) for _, file in ALL])

#: tox, and nothing else.
_TOX = r"pipx run (?:--python python )?tox==[\d.]+ run -e ([\w,.-]+)(?: -- --require-hardware \w+)?"

pytestmark = pytest.mark.skipif(not FILES["github"].exists(), reason="not run from the repository")


def commands(service: str, made: Any) -> Iterator[str]:
    """The commands of all jobs, with what the matrix puts into them."""
    if service == "buildkite":
        yield from (step["command"] for step in made["steps"])
        return
    for job in made["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        for row, step in itertools.product(rows, job["steps"]):
            if "run" in step:
                yield step["run"].replace('"$WHAT"', row.get("what", ""))


def environments(command: str) -> list[str]:
    """The environments that a command runs. Fails for a command that is not tox's."""
    called = re.fullmatch(_TOX, command)
    assert called, command
    return called[1].split(",")


@pytest.mark.parametrize("service", FILES)
def test_every_environment_of_tox_is_run_by_one_job_and_none_is_missing(service, yaml, needs_tox) -> None:
    made = [yaml.safe_load(files[service].read_text()) for files in (FILES, NIGHTLY)]
    run = [name for each in made for command in commands(service, each) for name in environments(command)]
    assert sorted(run) == sorted(tox_environments(ROOT))


@pytest.mark.parametrize("service", FILES)
def test_lanes_of_hardware_name_a_queue_and_cannot_pass_by_skipping(service, yaml) -> None:
    made = yaml.safe_load(FILES[service].read_text())
    lanes = [command for command in commands(service, made) if "numerics-" in command]
    assert [command.partition(" -- ")[2] for command in lanes] == [
        "--require-hardware cuda",
        "--require-hardware rocm",
        "--require-hardware xpu",
    ]
    jobs = made["steps"] if service == "buildkite" else made["jobs"].values()
    queues = [job.get("agents", {}).get("queue") or job.get("runs-on") for job in jobs]
    assert [queue for queue in queues if "gpu-" in str(queue)] == (
        ["gpu-h100", "gpu-mi300x", "gpu-b580"]
        if service == "buildkite"
        else [["self-hosted", queue] for queue in ("gpu-h100", "gpu-mi300x", "gpu-b580")]
    )


@each_file
def test_it_is_what_its_own_head_says(service, file, ci, needs_tox, monkeypatch) -> None:
    text = file.read_text()
    monkeypatch.chdir(ROOT)
    _, _, said, *words = shlex.split(text.splitlines()[1].lstrip("# "))
    assert said == service
    assert ci(service, *words).stdout == text


def test_the_runners_of_the_workflow_are_those_that_actionlint_knows(yaml) -> None:
    known = yaml.safe_load((ROOT / ".github/actionlint.yaml").read_text())["self-hosted-runner"]["labels"]
    used = set(re.findall(r"self-hosted, ([\w-]+)", FILES["github"].read_text()))
    assert used == set(known)
