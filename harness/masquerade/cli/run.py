"""`masquerade run --as`: a whole command in disguise, its children too."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from masquerade.cli.options import Conditions, Reporting, conditions, reporting, resolved
from masquerade.cli.ports import Ports, Real
from masquerade.cli.targets import write_all

if TYPE_CHECKING:
    from masquerade.machines import Machine
    from masquerade.report.results import Results
    from masquerade.stage.record import Record


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--as", "machine", required=True, metavar="M", help="The machine to be.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@conditions(timeout=None, limit="none")
@reporting
@click.pass_context
def run(
    ctx: click.Context, machine: str, command: tuple[str, ...], conditions: Conditions, reporting: Reporting
) -> None:
    """Run a command as if on another machine, with all the Python processes that it starts.

    Standard input, standard output and the exit status are the command's own. What it did on that machine is told on
    standard error when it has ended; findings do not change the exit status. It is 124 where --timeout ended the
    command.

    \b
    Examples:
      masquerade run --as mi355x -- python -c "import torch; print(torch.cuda.get_device_properties(0))"
      masquerade run --as h200x8 --report json:report.json -- pytest tests
    """
    if reporting.takes_stdout:
        raise click.UsageError("standard output is the command's; give the report a file, as in json:report.json")
    from masquerade.contracts import find_project

    ports: Ports = ctx.obj or Real()
    project = find_project()
    conditions = conditions.after(project.words)
    chosen = resolved(machine, "--as", conditions)
    if len(chosen) > 1:
        raise click.UsageError(f"--as takes one machine, not {len(chosen)}")
    started = time.monotonic()
    outcome = ports.run_as(machine=chosen[0], command=command, levels=reporting.levels, **conditions.as_arguments())
    results = _results(chosen[0], outcome.record, reporting, time.monotonic() - started)
    results = replace(results, roots=conditions.path, notes=project.notes)
    _tell(results)
    write_all(reporting.targets, results, log=sys.stderr)
    raise click.exceptions.Exit(outcome.exit_status)


def _results(machine: Machine, record: Record, reporting: Reporting, seconds: float) -> Results:
    from masquerade.report.results import MachineColumn, Results

    return Results(
        machines=(MachineColumn(machine.id, machine.platform, machine.arch or "unknown"),),
        records=(record,),
        planned=1,
        levels=reporting.levels,
        seconds=seconds,
    )


def _tell(results: Results) -> None:
    from rich.console import Console

    from masquerade.report.terminal import show

    show(results, Console(stderr=True))
