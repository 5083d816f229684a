"""`masquerade check`: all contracts of a project, and the acts that change their golden tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from masquerade.cli import kinds
from masquerade.cli.checking import Run, refuse_missing
from masquerade.cli.options import Conditions, Reporting, conditions, reporting, staging
from masquerade.cli.ports import Ports, Real, StagePort

if TYPE_CHECKING:
    from masquerade.contracts import Case, Configuration, Contract
    from masquerade.contracts.tabled import Tabled

ACTS = ("create", "fix", "update", "trim")
#: What a CI service sets; no golden file is written there.
CI = "CI"


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("-k", "expression", metavar="EXPR", help="Only checks whose ids match: 'routing and not h100'.")
@click.option("--contract", "names", multiple=True, metavar="NAME", help="Only this contract; may be given often.")
@click.option(
    "--golden",
    "act",
    type=click.Choice(ACTS),
    help="Change the golden tables of contracts: create what they lack, fix what is no longer so, "
    "update order, layout and reasons, or trim what no longer runs. Refused in CI.",
)
@click.option("--source", metavar="TEXT", help="Where new answers come from, for the golden table.  [default: unknown]")
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="The configuration.  [default: the nearest masquerade.toml or pyproject.toml]",
)
@conditions(timeout=None, limit="that of the contract")
@staging
@reporting
@click.option("--all", "every", is_flag=True, help="List the modules without findings, too.")
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[Path, ...],
    expression: str | None,
    names: tuple[str, ...],
    act: str | None,
    source: str | None,
    config: str | None,
    conditions: Conditions,
    python: str | None,
    isolation: str,
    jobs: int,
    reporting: Reporting,
    every: bool,
) -> None:
    """Check all contracts of [tool.masquerade] in pyproject.toml, or of masquerade.toml.

    With files, only what they bear on: the imports of their modules and the calls into their packages, which is what a
    hook wants before a commit. Options for the subject (--path, --env and so on) come on top of the configuration.

    \b
    Examples:
      masquerade check
      masquerade check -k "imports and mi355x" --report junit:checks.xml
      masquerade check --contract moe-routes --golden fix --source "PR 123"
    """  # fmt: skip
    from masquerade.contracts import collect, load

    _refuse(act, source)
    ports: Ports = ctx.obj or Real()
    configuration = _overridden(load(Path.cwd(), config, act or ""), conditions, reporting)
    contracts = _chosen(configuration, names, act)
    with ports.stage(python=python or configuration.python, isolation=isolation, jobs=jobs) as stage:
        cases = collect(contracts, stage.discover)
        refuse_missing(conditions.words, (case.check for case in cases), stage)
        chosen = _matching(cases, expression)
        if files:
            chosen = _touched(chosen, files, configuration)
        run = Run(_machines(chosen), replace(reporting, levels=dict(configuration.levels)))
        run.roots += dict.fromkeys([str(configuration.root), *(folder for c in contracts for folder in c.path)])
        _run(run, stage, cases, chosen, act, source)
    run.report(every)


def _run(
    run: Run, stage: StagePort, cases: Sequence[Case], chosen: Sequence[Case], act: str | None, source: str | None
) -> None:
    """Make the checks, do the golden act, and judge."""
    from masquerade.contracts import finish

    run.check(stage, [case.check for case in chosen])
    by_id = {case.id: case for case in chosen}
    pairs = [(by_id[record.id], record) for record in run.records]
    if act and not run.interrupted and not run.failure:
        pairs = _act(act, pairs, source or "unknown")
    judged = [(case, case.judge(record)) for case, record in pairs]
    run.records = [record for _, record in judged]
    run.broken = list(finish(cases, judged))
    run.golden = [contract.compared(judged) for contract in _tabled(case for case, _ in judged)]


def _act(act: str, pairs: list[tuple[Case, Any]], source: str) -> list[tuple[Case, Any]]:
    """Do a golden act; gives the cases with the tables as they are afterwards."""
    from masquerade.contracts.errors import shown

    after = {}
    for contract in _tabled(case for case, _ in pairs):
        after[contract.name], changed = contract.rewritten(act, pairs, source)
        click.echo(f"{shown(contract.golden_file)}: {'written' if changed else f'nothing to {act}'}", err=True)
        for doubt in after[contract.name].doubts(contract.table, pairs) if act in ("create", "fix") else ():
            click.echo(f"{shown(contract.golden_file)}: {doubt}", err=True)
    return [(replace(case, owner=after.get(case.contract, case.owner)), record) for case, record in pairs]


def _tabled(cases: Iterable[Case]) -> list[Tabled]:
    """The contracts with a golden table among the owners of cases, each once."""
    from masquerade.contracts.tabled import Tabled

    owners = {case.contract: case.owner for case in cases}
    return [owner for owner in owners.values() if isinstance(owner, Tabled)]


def _refuse(act: str | None, source: str | None) -> None:
    if act and os.environ.get(CI, "").lower() not in ("", "0", "false"):
        raise click.UsageError(
            f"--golden {act} writes files, and {CI} is set: run it where you work, look at the change and commit it"
        )
    if source and act not in ("create", "fix"):
        raise click.UsageError("--source tells where new answers come from; it goes with --golden create or fix")


def _overridden(configuration: Configuration, conditions: Conditions, reporting: Reporting) -> Configuration:
    """The configuration with what the command line says on top."""
    return configuration.amended(
        path=conditions.path,
        env=conditions.env,
        owners=conditions.words,
        levels=reporting.words,
        present=conditions.present,
        absent=conditions.absent,
        stand_ins=conditions.stand_ins,
        timeout=conditions.timeout,
    )


def _chosen(configuration: Configuration, names: tuple[str, ...], act: str | None) -> list[Contract]:
    """The contracts of these names, or all; for a golden act those that have a table.

    Raises: click.UsageError for a name that none has, and where none is left.
    """
    from masquerade.contracts.tabled import Tabled

    known = {contract.name: contract for contract in configuration.contracts}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no contract {name!r} in {configuration.file}; {kinds.meant(name, known)}")
    contracts = [known[name] for name in dict.fromkeys(names or known)]
    if act:
        contracts = [contract for contract in contracts if isinstance(contract, Tabled)]
        if not contracts:
            raise click.UsageError(f"--golden {act}: no contract of these has a golden table")
    return contracts


def _matching(cases: Sequence[Case], expression: str | None) -> Sequence[Case]:
    """The cases that match. Raises: click.UsageError where nothing is left to check."""
    from masquerade.contracts.selection import ExpressionError, matching

    try:
        chosen = cases if expression is None else matching(cases, expression)
    except ExpressionError as error:
        raise click.UsageError(f"-k {error}") from None
    if not chosen:
        first = f"; the first of {len(cases)} is {cases[0].id}" if cases else ""
        raise click.UsageError(f"nothing to check: no id matches -k {expression!r}{first}")
    return chosen


def _touched(cases: Sequence[Case], files: tuple[Path, ...], configuration: Configuration) -> Sequence[Case]:
    """The cases that these files bear on. Raises: click.exceptions.Exit with 0 where there is none."""
    from masquerade.contracts.changed import touched

    for file in files:
        if not file.exists():
            raise click.UsageError(f"there is no file {str(file)!r}")
    listed = [inner for file in files for inner in (file.rglob("*") if file.is_dir() else [file])]
    chosen = touched(cases, listed, configuration.file)
    if not chosen:
        click.echo("None of these files bears on a contract.", err=True)
        raise click.exceptions.Exit(0)
    return chosen


def _machines(cases: Iterable[Case]) -> list[Any]:
    return list({case.check.machine.id: case.check.machine for case in cases}.values())
