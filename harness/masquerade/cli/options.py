"""The options that commands share, and what becomes of them: the conditions of a check, and where its report goes."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from masquerade.cli import kinds
from masquerade.cli.services import DELIVER
from masquerade.cli.targets import RENDERERS, Target, TargetType

if TYPE_CHECKING:
    from masquerade.machines import Machine
    from masquerade.report.results import Results
    from masquerade.stage.record import Level

#: Elsewhere than on Linux the children of a fork cannot be told apart well enough.
ISOLATION = "fork" if sys.platform.startswith("linux") else "fresh"

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Conditions:
    """What a subject finds beside the machine. Paths are absolute; None in `env` takes a variable away.

    `variant` is what --present and --absent make of each machine: `+aiter-flashinfer`. `words` are those of --owner.
    """

    path: tuple[str, ...]
    env: dict[str, str | None]
    owners: dict[str, tuple[str, ...]]
    timeout: float | None
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def variant(self) -> str:
        return "".join(f"+{name}" for name in self.present) + "".join(f"-{name}" for name in self.absent)

    def after(self, words: Iterable[tuple[str, tuple[str, ...]]]) -> Conditions:
        """With owners that a project names, which those of --owner come on top of."""
        return replace(self, owners=owned((*words, *self.words)))

    def as_arguments(self) -> dict[str, Any]:
        """For `Check` and `run_as`, which name them alike."""
        names = ("path", "env", "owners", "stand_ins", "timeout")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Reporting:
    """What is told, where, and how grave each kind is; `words` are those of --level."""

    targets: tuple[Target, ...]
    levels: dict[str, Level]
    words: tuple[tuple[str, Level], ...] = ()

    @property
    def takes_stdout(self) -> bool:
        """Whether a report is standard output, so that nothing else may be."""
        return any(target.is_stdout for target in self.targets)

    def tell(self, results: Results, every: bool) -> None:
        """Show the results and write every report; a reader of the terminal that goes away loses none.

        Raises: ToolError if a report cannot be delivered.
        """
        from masquerade.cli.targets import write_all

        try:
            if not self.takes_stdout:
                from rich.console import Console

                from masquerade.report.terminal import show

                show(results, Console(), every=every)
        finally:
            write_all(self.targets, results)


def conditions(*, timeout: float | None, limit: str = "") -> Callable[[Command], Command]:
    """Options of a check, handed on as `conditions`.

    `timeout` is the default of the time limit, in seconds; where it is None, `limit` says in words what holds.
    """
    limit = limit or f"{timeout:g}"
    options = [
        click.option("--path", type=kinds.Directory(), multiple=True, help="Directory for the subject's sys.path."),
        click.option("--owner", "owners", type=kinds.Owner(), multiple=True,
                     help="Modules of one platform, which must not run on another: rocm=aiter,pkg.platforms.rocm. "
                          "any=pynvml gives a module to all."),
        click.option("--present", type=kinds.Packages(), multiple=True, help="Optional packages that are installed."),
        click.option("--absent", type=kinds.Packages(), multiple=True, help="Packages that are not installed."),
        click.option("--stand-in", "stand_ins", type=kinds.StandIns(), multiple=True,
                     help="Modules that cannot load here and are replaced by stand-ins: their names can be held, not "
                          "called. With =OTHER, module OTHER is executed in the place of it."),
        click.option("--env", type=kinds.Variable(), multiple=True, help="Environment variable of the subject."),
        click.option("--unset", type=kinds.VariableName(), multiple=True, help="Environment variable to take away."),
        click.option("--timeout", type=kinds.Seconds(), default=timeout, help=f"Time limit.  [default: {limit}]"),
    ]  # fmt: skip
    return _gather("conditions", options, _conditions)


def reporting(command: Command) -> Command:
    """Options of the report, handed on as `reporting`."""
    options = [
        click.option("--report", type=TargetType(), multiple=True,
                     help=f"Also write a report: {', '.join(f'{kind}:FILE' for kind in RENDERERS)}, or tell "
                          f"{' or '.join(DELIVER)}. json:- is standard output, and then nothing else is."),
        click.option("--level", type=kinds.Level(), multiple=True,
                     help="How grave a kind of finding is: error, warn or off. Warnings, if nothing is said, are"
                          " env-mutation, subprocess, thread and native-load; all others are errors."),
    ]  # fmt: skip
    return _gather("reporting", options, _reporting)(command)


def staging(command: Command) -> Command:
    """Options of the stage: `python`, `isolation` and `jobs`."""
    default_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for option in (
        click.option("-j", "--jobs", type=click.IntRange(min=1, max=256), default=default_jobs, metavar="N",
                     help="Checks at a time.  [default: one a processor]"),
        click.option("--isolation", type=click.Choice(["fork", "fresh"]), default=ISOLATION,
                     show_default=True, help="A forked child or a fresh interpreter for each check."),
        click.option("--python", type=kinds.Interpreter(),
                     help="The subject's interpreter, 3.10 or newer; masquerade need not be installed there."),
    ):  # fmt: skip
        command = option(command)
    return command


def resolved(listed: str, option: str, conditions: Conditions) -> list[Machine]:
    """The machines of a comma-separated list under these conditions, each once.

    Raises: click.UsageError if the list is empty; UnknownMachineError, MachineError.
    """
    from masquerade.machines import resolve

    machines = [resolve(name + conditions.variant) for name in kinds.words(listed)]
    if not machines:
        raise click.UsageError(f"{option} names no machine; `masquerade machines` lists them")
    return list({machine.id: machine for machine in machines}.values())


def _conditions(
    path: tuple[str, ...],
    owners: tuple[tuple[str, tuple[str, ...]], ...],
    present: tuple[tuple[str, ...], ...],
    absent: tuple[tuple[str, ...], ...],
    stand_ins: tuple[tuple[tuple[str, str], ...], ...],
    env: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    timeout: float | None,
) -> Conditions:
    here = {package for listed in present for package in listed}
    away = {package for listed in absent for package in listed}
    if here & away:
        raise click.UsageError(f"both --present and --absent: {', '.join(sorted(here & away))}")
    replaced = {module: adapter for listed in stand_ins for module, adapter in listed}
    if away & replaced.keys():
        raise click.UsageError(f"both --stand-in and --absent: {', '.join(sorted(away & replaced.keys()))}")
    if circle := sorted(name for name, other in replaced.items() if other in replaced):
        raise click.UsageError(f"--stand-in {circle[0]}={replaced[circle[0]]}: what stands in is replaced itself")
    variables: dict[str, str | None] = dict(env)
    if variables.keys() & set(unset):
        raise click.UsageError(f"both --env and --unset: {', '.join(sorted(variables.keys() & set(unset)))}")
    variables.update(dict.fromkeys(unset))
    return Conditions(
        path=tuple(dict.fromkeys(path)),
        env=variables,
        owners=owned(owners),
        timeout=timeout,
        present=tuple(sorted(here)),
        absent=tuple(sorted(away)),
        stand_ins=replaced,
        words=owners,
    )


def owned(words: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """The owners that come with masquerade, changed by the user's words: the last word on a module counts."""
    from masquerade.machines import default_owners
    from masquerade.machines.owners import reassign

    return reassign(default_owners(), words)


def _reporting(report: tuple[Target, ...], level: tuple[tuple[str, Level], ...]) -> Reporting:
    from masquerade.stage.record import default_levels

    places = [target.where for target in report]
    twice = sorted({place for place in places if places.count(place) > 1})
    if twice:
        raise click.UsageError(f"two reports to {', '.join(twice)}; give each its own file")
    return Reporting(report, {**default_levels(), **dict(level)}, level)


def _gather(name: str, options: list[Callable[[Any], Any]], make: Callable[..., Any]) -> Callable[[Command], Command]:
    """Add options to a command, and hand it what `make` makes of them as one parameter."""
    keys = list(inspect.signature(make).parameters)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapper(**params: Any) -> Any:
            made = make(**{key: params.pop(key) for key in keys})
            return command(**{name: made}, **params)

        decorated: Any = wrapper
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate
