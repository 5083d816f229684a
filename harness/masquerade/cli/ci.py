"""`masquerade ci`: a pipeline for GitHub Actions or Buildkite, made from a project's tox environments or contracts."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from masquerade.cli import kinds

if TYPE_CHECKING:
    from masquerade.ci.commands import Commands
    from masquerade.ci.plan import Job

_PYTHON = re.compile(r"3\.\d{1,2}")
#: Five fields of numbers, as GitHub's workflow syntax has them.
_CRON = re.compile(r"[\d*/,-]+( [\d*/,-]+){4}")

#: Begins the head of each pipeline, and tells one that may be written over.
_HEAD = "Made by:"

_OPTIONS = (
    click.option("--root", type=kinds.Directory(), default=".", metavar="DIR", help="The project.  [default: here]"),
    click.option("--from", "source", type=click.Choice(["tox", "contracts"]),
                 help="What the jobs run.  [default: tox environments if the project has some, else its contracts]"),
    click.option("-n", "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N",
                 help="Jobs to share the work."),
    click.option("--timings", multiple=True, metavar="FILE", type=click.Path(exists=True, dir_okay=False),
                 help="How long each took, so that the jobs are even: of `tox run --result-json FILE`, of "
                      "--report json:FILE, or a JSON object of seconds by name."),
    click.option("-m", "--label", metavar="LABEL", help="Only the environments of this label of tox."),
    click.option("--skip", multiple=True, metavar="NAME", help="Leave these out; a pattern as in release*."),
    click.option("--hardware", multiple=True, metavar="ENV=PLATFORM[:ARCH]@QUEUE",
                 help="An environment that needs a device: it runs where agents have one, with --require-hardware."),
    click.option("--queue", metavar="NAME", help="Buildkite's queue or GitHub's runner for all other jobs."),
    click.option("--python", "pythons", multiple=True, metavar="X.Y",
                 help="Versions for GitHub to set up.  [default: 3.12, or what requires-python admits]"),
    click.option("--branch", default="main", show_default=True, help="The branch whose pushes GitHub runs."),
    click.option("--schedule", metavar="CRON",
                 help="Run at these times of UTC, as cron writes them, and not for pushes. Buildkite keeps the times "
                      "itself: the steps then run in builds of a schedule."),
    click.option("--install", metavar="REQUIREMENT",
                 help="What pip installs masquerade from in jobs of contracts: a version, a path in the checkout, or "
                      "'masquerade @ git+https://...'.  [default: this version, from the package index]"),
    click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, writable=True),
                 help="Write it there.  [default: standard output]"),
)  # fmt: skip


@click.group()
def ci() -> None:
    """Write a pipeline for this project: GitHub Actions or Buildkite.

    \b
    Examples:
      masquerade ci github -o .github/workflows/masquerade.yml
      masquerade ci buildkite -n 4 --timings times.json --hardware gpu=cuda@h200 -o .buildkite/pipeline.yml
    """


def _service(write: Callable[..., dict[str, Any]]) -> click.Command:
    """A command that makes the plan, has `write` put it into the words of a service, and prints it."""

    @functools.wraps(write)
    def command(ctx: click.Context, root: str, source: str | None, output: str | None, **options: Any) -> None:
        from masquerade.ci.emit import dump
        from masquerade.ci.work import PlanError
        from masquerade.contracts import ConfigurationError

        if options["schedule"] and not _CRON.fullmatch(options["schedule"]):
            raise click.UsageError(f"--schedule {options['schedule']!r} is no time of cron; write it as '30 3 * * *'")
        for version in options["pythons"]:
            if not _PYTHON.fullmatch(version):
                raise click.UsageError(f"--python {version!r} is no version; write it as 3.12")
        try:
            jobs, commands = _planned(Path(root), source, options)
            pipeline = write(jobs, commands, {**options, "root": Path(root)})
        except (PlanError, ConfigurationError) as error:
            raise click.UsageError(str(error)) from error
        if commands.source == "contracts" and not commands.install:
            told = "has no pyproject.toml or setup.py to install: add what the jobs must install for your package"
            click.echo(f"note: {root} {told}", err=True)
        again = shlex.join(["masquerade", "ci", write.__name__, *_given(ctx)])
        _put(dump(pipeline, [_HEAD, f"  {again}", "Change what it is made from, not this file."]), output)

    decorated: Any = click.pass_context(command)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    made: click.Command = ci.command(decorated)
    return made


def _planned(root: Path, source: str | None, options: dict[str, Any]) -> tuple[tuple[Job, ...], Commands]:
    from masquerade.ci import timings, work
    from masquerade.ci.commands import Commands, installable
    from masquerade.ci.plan import Hardware, plan, without

    chosen: work.Source = "tox" if source == "tox" else "contracts" if source else work.source_of(root)
    if chosen == "contracts" and (options["label"] or options["hardware"]):
        raise work.PlanError("--label and --hardware are for tox environments; contracts need no device")
    names = work.tox_environments(root, options["label"]) if chosen == "tox" else work.contract_names(root)
    measured = timings.read(map(Path, options["timings"]))
    lanes = [Hardware.parse(text) for text in options["hardware"]]
    jobs = plan(without(names, options["skip"]), options["jobs"], measured, lanes)
    tool = {"tool": options["install"]} if options["install"] else {}
    return jobs, Commands(chosen, install=installable(root), **tool)


def _given(ctx: click.Context) -> list[str]:
    """The options as they were given, but for where the project is and where the pipeline goes."""
    words = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name in ("root", "output") or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words += [parameter.opts[-1], str(each)]
    return words


def _put(text: str, output: str | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    file = Path(output)
    if file.is_file() and _HEAD not in file.read_text(encoding="utf-8", errors="replace")[:400]:
        raise click.UsageError(f"{output} was not made by masquerade ci; move it away, or choose another file")
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write to {output}: {error.strerror}") from error
    click.echo(f"{output}: written", err=True)


@_service
def github(jobs: tuple[Job, ...], commands: Commands, options: dict[str, Any]) -> dict[str, Any]:
    """Write a workflow of GitHub Actions."""
    from masquerade.ci import pins, work
    from masquerade.ci.github import pipeline

    pythons = options["pythons"] or (work.python_of(options["root"]),)
    return pipeline(jobs, commands, pythons, options["queue"] or pins.RUNNER, options["branch"],
                    options["schedule"] or "")  # fmt: skip


@_service
def buildkite(jobs: tuple[Job, ...], commands: Commands, options: dict[str, Any]) -> dict[str, Any]:
    """Write a pipeline of Buildkite."""
    from masquerade.ci.buildkite import pipeline

    return pipeline(jobs, commands, options["queue"] or "", bool(options["schedule"]))
