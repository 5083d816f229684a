"""`masquerade machines`: the zoo, and one machine with the source of each value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from masquerade.machines import Machine


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
def machines(name: str | None, as_json: bool) -> None:
    """List the machines, or show one with the source of each value.

    NAME may carry a variant: mi355x+aiter, mi300x-amdsmi, h200x8.
    """
    from masquerade.machines import names, resolve

    if name is None:
        zoo = [resolve(each) for each in names()]
        if as_json:
            click.echo(json.dumps([_brief(machine) for machine in zoo], indent=1))
        else:
            _show_zoo(zoo)
    elif as_json:
        machine = resolve(name)
        click.echo(json.dumps({**machine.to_json(), "sources": machine.sources()}, indent=1))
    else:
        _show_one(resolve(name))


def _brief(machine: Machine) -> dict[str, Any]:
    return {
        "id": machine.id,
        "platform": machine.platform,
        "arch": machine.arch,
        "aliases": list(machine.aliases),
        "devices": len(machine.devices),
        "fault": machine.fault["kind"] if machine.fault else None,
        "summary": machine.summary,
    }


def _show_zoo(zoo: list[Machine]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from masquerade.report.text import clean, plural

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("machine", "platform", "arch"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for machine in zoo:
        summary = Text(clean(machine.summary))
        if machine.aliases:
            summary.append(f" ({', '.join(map(clean, machine.aliases))})", style="dim")
        table.add_row(clean(machine.id), machine.platform, clean(machine.arch), summary)
    console = Console()
    console.print(table)
    console.print(
        f"\n{plural(len(zoo), 'machine')}. `masquerade machines NAME` shows one with the source of each value."
    )


def _show_one(machine: Machine) -> None:
    from rich.console import Console
    from rich.text import Text

    from masquerade.machines import describe
    from masquerade.report.text import clean

    console = Console()
    console.print(Text(machine.id, style="bold").append(f"  {machine.platform} {machine.arch}", style="not bold"))
    if machine.summary:
        console.print(Text(clean(machine.summary)))
    sources: dict[str, int] = {}
    section = ""
    for row in describe(machine):
        if row.section != section:
            section = row.section
            console.print()
        line = Text(f"{row.key} = ")
        line.append(clean(row.text), style="yellow" if row.value == "unknown" else "bold")
        if row.source:
            line.append(f"  [{sources.setdefault(row.source, len(sources) + 1)}]", style="dim")
        console.print(line, soft_wrap=True)
    if sources:
        console.print(Text("\nSources", style="bold"))
    for source, number in sources.items():
        console.print(Text(f"[{number}] {clean(source)}"), soft_wrap=True)
