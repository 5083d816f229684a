"""`masquerade scan`: import every module of a package on every machine, or one module, or call one function."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from masquerade.cli import kinds
from masquerade.cli.checking import Run, refuse_missing
from masquerade.cli.options import Conditions, Reporting, conditions, reporting, resolved, staging
from masquerade.cli.ports import Ports, Real

if TYPE_CHECKING:
    from masquerade.machines import Machine
    from masquerade.stage.client import Check
    from masquerade.stage.record import Level


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="SUBJECT...")
@click.option("--on", default="cuda,rocm,xpu,cpu", show_default=True, metavar="M,M", help="Machines to run on.")
@conditions(timeout=60.0)
@click.option("--settle", type=kinds.Seconds(zero=True), default=1.0, show_default=True,
              help="How long threads that an import left behind may take to end.")  # fmt: skip
@staging
@reporting
@click.option("--flat", is_flag=True,
              help="Import everything anew for each module. Else imports that modules share and that proved clean "
                   "are made once per machine, and what is found is confirmed anew.")  # fmt: skip
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Where MASQUERADE_CACHE names a folder: take results of earlier scans from it if nothing that a check read has"
    " changed since, and keep new ones there.",
)
@click.option("--factory", type=kinds.Function(),
              help="A function of yours that makes the arguments of each function to call, in the child: a dict of "
                   "keyword arguments, a list of positional ones, or a pair of both.")  # fmt: skip
@click.option("--all", "every", is_flag=True, help="List the modules without findings, too.")
@click.pass_context
def scan(
    ctx: click.Context,
    subjects: tuple[str, ...],
    on: str,
    conditions: Conditions,
    settle: float,
    python: str | None,
    isolation: str,
    jobs: int,
    reporting: Reporting,
    flat: bool,
    cache: bool,
    factory: str | None,
    every: bool,
) -> None:
    """Import every module of a package on machines that are not here, and report what they do there.

    SUBJECT is a package or module (pkg, pkg.mod), or a function to call after the import (pkg.mod:func).
    The modules of a package are found without importing any.

    \b
    Examples:
      masquerade scan mypackage                (in this directory, or installed)
      masquerade scan mypackage --path src
      masquerade scan mypackage.kernels --on h200,mi355x,b580 --report json:report.json
      masquerade scan mypackage --owner rocm=mypackage.platforms.rocm --level env-mutation=error
      masquerade scan mypackage.gemm:launch --factory arguments:gemm --path src --path . --on h200,mi355x
    """
    from masquerade.contracts import find_project
    from masquerade.remembered import open_memory
    from masquerade.stage.owners import asked_of

    ports: Ports = ctx.obj or Real()
    project = find_project()
    conditions = conditions.after(project.words)
    if not conditions.path:
        # As `python -c "import mypackage"` would find it, and then as the project's contracts do.
        conditions = dataclasses.replace(conditions, path=tuple(dict.fromkeys((os.getcwd(), *project.path))))
    machines = resolved(on, "--on", conditions)
    for subject in subjects:
        _refuse_what_is_no_subject(subject)
        _refuse_what_is_replaced(subject, conditions.stand_ins)
    if factory and not any(":" in subject for subject in subjects):
        raise click.UsageError(f"--factory makes arguments for a call: name a function, {subjects[0]}:func")
    run = Run(machines, reporting)
    with ports.stage(python=python, isolation=isolation, jobs=jobs) as stage:
        modules = run.find(stage, subjects, conditions.path)
        memory = open_memory(cache and isolation == "fork")
        checks = _checks(modules, machines, conditions, settle, reporting.levels, factory)
        checks, left_out = _where_they_belong(checks)
        run.notes += left_out
        project.refuse_missing(checks, asked_of(stage.discover))
        refuse_missing(conditions.words, checks, stage)
        run.check(stage, checks, flat, memory)
        run.notes += [*project.notes, *memory.told()]
    run.report(every)


def _refuse_what_is_no_subject(subject: str) -> None:
    if "/" in subject or subject.endswith(".py"):
        module = subject.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(
            f"{subject!r} is a file name; a subject is a module: {module} (with --path DIR if need be)"
        )
    if "*" in subject or "?" in subject:
        from masquerade.contracts.patterns import root

        package = root(subject.partition(":")[0])
        instead = f": {package}, with all modules below it" if package else ""
        raise click.UsageError(f"{subject!r} is a pattern; a subject is a module or a package{instead}")
    module, colon, function = subject.partition(":")
    parts = [*module.split("."), *(function.split(".") if colon else ())]
    if not all(part.strip() == part != "" for part in parts):
        raise click.UsageError(f"{subject!r} is no subject; write a module, pkg.mod, or a function in it, pkg.mod:func")


def _refuse_what_is_replaced(subject: str, stand_ins: Iterable[str]) -> None:
    module = subject.partition(":")[0]
    for name in stand_ins:
        if f"{module}.".startswith(f"{name}."):
            raise click.UsageError(
                f"--stand-in {name} takes the place of {subject} itself: nothing of it would be checked"
            )


def _where_they_belong(checks: list[Check]) -> tuple[list[Check], list[str]]:
    """The checks, less imports of modules on machines of another platform than their owner's, and what is left out.

    Raises: click.UsageError if that are all.
    """
    from masquerade.machines.owners import owner_elsewhere

    kept: list[Check] = []
    elsewhere: dict[str, dict[str, None]] = {}
    for check in checks:
        owner = "" if ":" in check.subject else owner_elsewhere(check.subject, check.owners, check.machine.platform)
        if owner and check.machine.platform != "here":
            elsewhere.setdefault(owner, {})[check.subject] = None
        else:
            kept.append(check)
    told = []
    for owner, modules in elsewhere.items():
        first, *others = modules
        more = f" and {len(others)} more" if others else ""
        told.append(f"{first}{more} of {owner} were not imported on machines of other platforms")
    if not kept:
        raise click.UsageError(f"nothing to check: {'; '.join(told)}")
    return kept, told


def _checks(
    subjects: Iterable[str],
    machines: Iterable[Machine],
    conditions: Conditions,
    settle: float,
    levels: dict[str, Level],
    factory: str | None,
) -> list[Check]:
    from masquerade.stage.client import Check

    common: dict[str, Any] = {"settle": settle, "levels": levels, **conditions.as_arguments()}
    return [
        Check(subject=subject, machine=machine, factory=(factory or "") if ":" in subject else "", **common)
        for subject in subjects
        for machine in machines
    ]
