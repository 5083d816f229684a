"""`masquerade doctor`: what this host really is, and which suites can run here."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from masquerade.cli import kinds
from masquerade.cli.failures import ToolError
from masquerade.cli.ports import Ports, Real

if TYPE_CHECKING:
    from masquerade.cli.environment import Environment
    from masquerade.machines.hardware import Accelerators


@dataclass(frozen=True)
class Ability:
    """A stage or a suite that can run on this host, or why it cannot."""

    kind: str
    name: str
    able: bool
    why: str


@click.command()
@click.option("--python", type=kinds.Interpreter(), help="Ask this interpreter instead of masquerade's own.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
@click.pass_context
def doctor(ctx: click.Context, python: str | None, as_json: bool) -> None:
    """Tell what this host really is, which suites can run here, and why the others cannot.

    Starts a stage of each kind and makes the positive control on it; ends with 3 when none works.
    """
    from masquerade.cli.environment import ask
    from masquerade.machines.hardware import look

    environment = ask(python or sys.executable)
    accelerators = look()
    stages = _stages(ctx.obj or Real(), python, environment)
    abilities = [*stages, *_suites(environment, accelerators, any(stage.able for stage in stages))]
    if as_json:
        parts = {"environment": asdict(environment), "accelerators": [asdict(each) for each in accelerators]}
        click.echo(json.dumps({**parts, "abilities": [asdict(ability) for ability in abilities]}, indent=1))
    else:
        _show(environment, accelerators, abilities)
    if not any(stage.able for stage in stages):
        raise ToolError("no stage works here; nothing could be checked")


def _stages(ports: Ports, python: str | None, environment: Environment) -> list[Ability]:
    """Try both kinds of isolation with the positive control."""
    from masquerade.stage import StageError
    from masquerade.stage.client import blind

    out = []
    for isolation in ("fork", "fresh"):
        if isolation == "fork" and not environment.fork:
            out.append(Ability("stage", isolation, False, "this system has no fork"))
            continue
        try:
            with ports.stage(python=python, isolation=isolation, jobs=1) as stage:
                started = time.monotonic()
                control = stage.control()
                took = time.monotonic() - started
        except StageError as error:
            out.append(Ability("stage", isolation, False, str(error)))
        else:
            seen = not blind(control)
            said = f"was seen, in {took:.2f} s" if seen else f"gave {control.verdict}: blind"
            out.append(Ability("stage", isolation, seen, f"the positive control {said}"))
    return out


def _suites(environment: Environment, accelerators: tuple[Accelerators, ...], staged: bool) -> list[Ability]:
    """What the suites need, and whether it is here."""
    stage = "" if staged else "no stage works"
    torch = "" if environment.torch else "torch is not installed"
    triton = "" if environment.triton else "triton is not installed"
    built = environment.torch.platforms if environment.torch else ()
    out = [
        _suite("imports, calls, routing", stage),
        _suite("codegen", stage, torch, triton),
        _suite("numerics on cpu", torch),
    ]
    for each in accelerators:
        device = "" if each.devices else f"no {each.vendor} device"
        build = "" if each.platform in built or torch else f"this torch is no {each.platform} build"
        out.append(_suite(f"numerics on {each.platform}", device, torch, build))
    return out


def _suite(name: str, *obstacles: str) -> Ability:
    stopped = [obstacle for obstacle in obstacles if obstacle]
    return Ability("suite", name, not stopped, "; ".join(stopped))


def _show(environment: Environment, accelerators: tuple[Accelerators, ...], abilities: list[Ability]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from masquerade.report.text import clean

    console = Console()

    def section(title: str, rows: list[tuple[str, Any, str]]) -> None:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value, style in rows:
            table.add_row(Text(f"  {clean(name)}"), Text(clean(str(value)), style=style))
        console.print(Text(title, style="bold"))
        console.print(table)
        console.print()

    torch = f"{environment.torch} in {environment.torch.where}" if environment.torch else "not installed"
    section("This host", [
        ("system", environment.system, ""),
        ("python", f"{environment.python}, {environment.executable}", ""),
        ("torch", torch, ""),
        ("triton", environment.triton or "not installed", ""),
        *((each.vendor, ", ".join(each.devices) or f"none: {', '.join(each.missing)}", "") for each in accelerators),
    ])  # fmt: skip
    for kind, title in (("stage", "Isolation that works here"), ("suite", "Suites that can run here")):
        section(title, [(each.name, *_verdict(each)) for each in abilities if each.kind == kind])


def _verdict(ability: Ability) -> tuple[str, str]:
    says = "yes" if ability.able else "no"
    return f"{says}{f': {ability.why}' if ability.why else ''}", "green" if ability.able else "yellow"
