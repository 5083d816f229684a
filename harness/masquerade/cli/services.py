"""Reports that go to a CI service: GitHub's annotations and job summary, Buildkite's annotation of a build."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from masquerade.cli.failures import ToolError

if TYPE_CHECKING:
    from masquerade.report.results import Results

#: Where each service says that it has checked the repository out: GitHub, GitLab, Buildkite, Jenkins.
_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "BUILDKITE_BUILD_CHECKOUT_PATH", "WORKSPACE")

_AGENT = "buildkite-agent"
_SECONDS = 60.0


def to_github(results: Results, log: TextIO) -> None:
    """Write annotations into the log of the step, and the summary into the file that GitHub names for it.

    Raises: ToolError if that file cannot be written.
    """
    from masquerade.report import github

    log.write(github.workflow_commands(results, repository(os.environ, results.roots)))
    log.flush()
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    text = github.summary(results)
    try:
        with open(file, "a", encoding="utf-8") as summary:  # other steps' tools may have written into it
            summary.write(f"{text}\n")
    except OSError as error:
        told = f"cannot write the job summary to {file}: {error.strerror}"
        raise ToolError(f"{told}. {kept('github', text)}") from error


def to_buildkite(results: Results, log: TextIO) -> None:
    """Annotate the build; where there is no agent to do it, write the annotation into the log.

    Raises: ToolError if the agent fails.
    """
    from masquerade.report import buildkite

    text = buildkite.render(results)
    agent = shutil.which(_AGENT)
    if agent is None:
        log.write(text)
        log.flush()
        return
    command = [agent, "annotate", "--style", buildkite.style(results), "--context", buildkite.context(os.environ)]
    try:
        done = subprocess.run(
            command,
            input=text,
            text=True,
            encoding="utf-8",
            errors="replace",
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        reason = "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    if reason:
        from masquerade.report.text import last_lines

        told = "; ".join(last_lines(reason, 3))
        raise ToolError(f"{_AGENT} annotate failed: {told}. {kept('buildkite', text)}")


#: How each service is told: with the results, and with the log of the job.
DELIVER: dict[str, Callable[[Results, TextIO], None]] = {"github": to_github, "buildkite": to_buildkite}


def in_repository(results: Results) -> Results:
    """The results with the paths of files as the repository has them."""
    from masquerade.report.placed import placed

    return placed(results, repository(os.environ, results.roots))


def repository(environ: Mapping[str, str], roots: tuple[str, ...]) -> Callable[[str], str | None]:
    """A function that gives a reported file's path in the checked-out repository; None for files outside."""
    here = Path.cwd().resolve()
    named = [(name, Path(environ[name]).resolve()) for name in _CHECKOUTS if environ.get(name)]
    # Other tools than Jenkins set WORKSPACE, too.
    top = next((folder for name, folder in named if name != "WORKSPACE" or here.is_relative_to(folder)), here)
    folders = list(dict.fromkeys(Path(folder).resolve() for folder in (*roots, os.getcwd(), str(top))))

    def locate(file: str) -> str | None:
        for folder in folders:
            try:
                found = (folder / file).resolve()
                if found.is_file() and found.is_relative_to(top):
                    return found.relative_to(top).as_posix()
            except (OSError, ValueError):  # a subject names its files as it likes
                return None
        return None

    return locate


def kept(kind: str, text: str) -> str:
    """Put a report that could not be delivered into the temporary directory; says where it is."""
    suffix = {"junit": ".xml", "test-engine": ".json", "github": ".md", "buildkite": ".md"}.get(kind, f".{kind}")
    name = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="masquerade-", suffix=suffix, delete=False
        ) as file:
            name = file.name
            file.write(text)
    except OSError as error:
        if name:
            os.unlink(name)
        return f"It could not be kept in the temporary folder either: {error.strerror or error}"
    return f"It is in {name}"
