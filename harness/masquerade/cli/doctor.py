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
    from masquerade.cli.hardware import Accelerators


@dataclass(frozen=True)
class Ability:
    """One thing that this host can do, or why it cannot."""

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
    from masquerade.cli.hardware import look

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
        name = f"stage: {isolation}"
        if isolation == "fork" and not environment.fork:
            out.append(Ability(name, False, "this system has no fork"))
            continue
        try:
            with ports.stage(python=python, isolation=isolation, jobs=1) as stage:
                started = time.monotonic()
                control = stage.control()
                took = time.monotonic() - started
        except StageError as error:
            out.append(Ability(name, False, str(error)))
        else:
            seen = not blind(control)
            said = f"was seen, in {took:.2f} s" if seen else f"gave {control.verdict}: blind"
            out.append(Ability(name, seen, f"the positive control {said}"))
    return out


def _suites(environment: Environment, accelerators: tuple[Accelerators, ...], staged: bool) -> list[Ability]:
    """What the suites need, and whether it is here."""
    stage = "" if staged else "no stage works"
    torch = "" if environment.torch else "torch is not installed"
    triton = "" if environment.triton else "triton is not installed"
    built = environment.torch.platforms if environment.torch else ()
    out = [
        _suite("imports, calls, routing as cuda, rocm, xpu, cpu", stage),
        _suite("codegen for cuda, rocm", stage, torch, triton),
        _suite("numerics on cpu", torch),
    ]
    for each in accelerators:
        device = "" if each.devices else f"no {each.vendor} device: {', '.join(each.missing)}"
        build = "" if each.platform in built or torch else f"this torch is no {each.platform} build"
        out.append(_suite(f"numerics on {each.platform}", device, torch, build))
    return out


def _suite(name: str, *obstacles: str) -> Ability:
    stopped = [obstacle for obstacle in obstacles if obstacle]
    return Ability(f"suite: {name}", not stopped, "; ".join(stopped))


def _show(environment: Environment, accelerators: tuple[Accelerators, ...], abilities: list[Ability]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from masquerade.report.text import clean

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, value: Any, style: str = "") -> None:
        table.add_row(Text(clean(name), style="bold"), Text(clean(str(value)), style=style))

    row("host", environment.system)
    row("python", f"{environment.python}, {environment.executable}")
    row("torch", f"{environment.torch} in {environment.torch.where}" if environment.torch else "not installed")
    row("triton", environment.triton or "not installed")
    for each in accelerators:
        row(each.vendor, "\n".join(each.devices) or f"none: {', '.join(each.missing)}")
    table.add_row()
    for ability in abilities:
        says = "yes" if ability.able else "no"
        row(ability.name, f"{says}{f': {ability.why}' if ability.why else ''}", "green" if ability.able else "yellow")
    Console().print(table)
