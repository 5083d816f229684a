"""The matrix that people read: modules down, machines across, a verdict in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.report.columns import GAP, SHORT, Column, blocks, columns, shared_variant
from masquerade.report.results import Results
from masquerade.report.rows import Row
from masquerade.report.text import clean, plural
from masquerade.stage.record import SEVERITY

_NAME_WIDTH = 28  # what a module's name keeps for itself, in columns


def tables(rows: Sequence[Row], results: Results, console: Console) -> Iterator[Table | Text]:
    """The matrix in as many blocks of machines as the width asks for, then what its short names mean."""
    room = console.width - _NAME_WIDTH
    found = columns(rows, results.machines, room)
    if shared := told_once(rows, results, console):
        yield Text(f"each machine with {clean(shared)}", style="dim")
    for block in blocks(found, room):
        yield _table(rows, block, console.width - sum(column.width for column in block))
    for column in found:
        if len(column.machines) > 1:
            yield Text(f"{column.name}: {', '.join(column.machines)}", style="dim")
    used = {cell.strip("()") for column in found for cell in column.cells}
    meanings = [f"{SHORT[kind]} = {kind}" for kind in SEVERITY if SHORT.get(kind) in used]
    if meanings:
        yield Text(", ".join(meanings), style="dim")


def told_once(rows: Sequence[Row], results: Results, console: Console) -> str:
    """What the matrix says of all machines in one line, so that their names go without it. Empty if nothing."""
    shared = shared_variant(results.machines)
    found = columns(rows, results.machines, console.width - _NAME_WIDTH) if shared else []
    return "" if not found or found[0].machines[0].endswith(shared) else shared


def _table(rows: Sequence[Row], block: Sequence[Column], room: int) -> Table:
    # Beside the padding the box draws a blank between two columns.
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0), show_edge=False)
    names = [_name(row) for row in rows]
    table.add_column("", overflow="fold", width=min(max([*(len(name) for name in names), 1]), max(room - GAP, 12)))
    for column in block:
        table.add_column(Text(f"{column.platform}\n{column.name}"), no_wrap=True, width=column.width - GAP)
    for index, name in enumerate(names):
        table.add_row(name, *(_cell(column.cells[index]) for column in block))
    return table


def _name(row: Row) -> Text:
    name = Text(clean(row.name))
    if row.count > 1:
        name.append(f" ({plural(row.count, 'module')})", style="dim")
    return name


def _cell(cell: str) -> Text:
    if cell.endswith("ok"):
        style = "green"
    elif cell == "-" or cell.startswith("("):
        style = "dim"
    else:
        style = "bold red"
    return Text(cell, style=style)
