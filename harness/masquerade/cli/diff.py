"""`masquerade diff`: how two golden tables differ, as those of two releases of one package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from masquerade.cli.failures import FAILED

if TYPE_CHECKING:
    from masquerade.contracts.golden.between import Between

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@click.option("--markdown", is_flag=True, help="As a table of Markdown.")
def diff(old: Path, new: Path, markdown: bool) -> None:
    """Compare two golden tables of routing contracts: which answers moved from OLD to NEW, where, and why.

    What moved alike is told once. The reasons are those of the files beside the tables. It ends with 1 where the tables
    differ.

    \b
    Examples:
      masquerade diff vllm-0.29.0/moe-routes.md vllm-0.33.0/moe-routes.md
      masquerade diff --markdown old.md new.md >> notes.md
    """
    from masquerade.contracts import golden
    from masquerade.contracts.golden.between import between

    tables = [golden.read(file) for file in (old, new)]
    reasons = [golden.read_reasons(file) for file in (old, new)]
    found = between(tables[0] or golden.Table(), reasons[0], tables[1] or golden.Table(), reasons[1])
    for line in _markdown(found) if markdown else _text(found):
        click.echo(line)
    if found:
        raise click.exceptions.Exit(FAILED)


def _text(found: Between) -> Iterator[str]:
    yield _headline(found)
    for moved in found.moved:
        yield f"  {moved.problem}: {moved.old} -> {moved.new}"
        yield f"    on {', '.join(moved.machines)}"
        yield from (f"    {reason}" for reason in moved.why)
    yield from (f"  only in the old table: {name}" for name in found.gone)
    yield from (f"  only in the new table: {name}" for name in found.come)


def _headline(found: Between) -> str:
    return f"{found.answers} of {found.common} answers moved"


def _markdown(found: Between) -> Iterator[str]:
    from masquerade.report.markdown_tables import code

    yield f"{_headline(found)}."
    yield ""
    if found.moved:
        yield "| problem | was | is | on | why |"
        yield "|---|---|---|---|---|"
    for moved in found.moved:
        cells = map(code, (moved.problem, moved.old, moved.new))
        on, why = ", ".join(map(code, moved.machines)), "<br>".join(map(code, moved.why))
        yield f"| {' | '.join(cells)} | {on} | {why} |"
    for words, names in (("old", found.gone), ("new", found.come)):
        if names:
            yield ""
            yield f"Only in the {words} table: {', '.join(names)}."
