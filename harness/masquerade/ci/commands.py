"""What a job of a pipeline calls: tox, or masquerade itself, and nothing else."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from masquerade import __version__
from masquerade.ci import pins
from masquerade.ci.plan import Job
from masquerade.ci.work import Source

#: The page that a job of contracts leaves.
PAGE = "masquerade.html"


@dataclass(frozen=True)
class Commands:
    """How the jobs of one pipeline run.

    `tool` is what pip installs masquerade from, `install` what it installs beside it where contracts are run.
    """

    source: Source
    install: str = ""
    tool: str = f"masquerade=={__version__}"

    def preparation(self, python: str) -> tuple[str, ...]:
        """What comes before the run itself; tox prepares all by itself."""
        if self.source == "tox":
            return ()
        wanted = " ".join(filter(None, (shlex.quote(self.tool), self.install)))
        return (f"{python} -m pip install {wanted}",)

    def run(self, job: Job, service: str, program: str = "masquerade") -> str:
        """The command of one job."""
        if self.source == "tox":
            return self.environments(",".join(job.names), job)
        return self.contracts(shlex.quote(selection(job)), service, program)

    def environments(self, listed: str, job: Job | None = None, python: str = "") -> str:
        """tox on environments. `python` is what tox runs on, and with it each environment that names no other."""
        chosen = f"--python {python} " if python else ""
        lane = job.hardware if job else None
        required = f" -- --require-hardware {lane.required}" if lane else ""
        return f"pipx run {chosen}tox=={pins.TOX} run -e {listed}{required}"

    def contracts(self, selected: str, service: str, program: str = "masquerade") -> str:
        return f"{program} check -k {selected} --report {service} --report html:{PAGE}"


def selection(job: Job) -> str:
    """The contracts of a job as an expression for -k: their names between the slashes of an id."""
    return " or ".join(f"/{name}/" for name in job.names)


def installable(root: Path) -> str:
    """What pip installs of a project: itself, if it can be installed."""
    if (root / "setup.py").is_file() or (root / "setup.cfg").is_file():
        return "-e ."
    file = root / "pyproject.toml"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return "-e ." if any(f"{line}\n" in f"{text}\n" for line in ("[project]", "[build-system]")) else ""
