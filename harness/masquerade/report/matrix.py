"""The matrix that people read: modules down, machines across, a verdict in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.report.results import MachineColumn, Results
from masquerade.report.rows import Row
from masquerade.report.text import clean, plural
from masquerade.stage.record import SEVERITY

#: What a cell says where the full names do not fit.
SHORT = {
    "device-init": "init",
    "fork-poison": "poison",
    "forbidden-import": "import",
    "forbidden-native": "native",
    "compile-error": "compile",
    "out-of-resources": "memory",
    "import-error": "error",
    "call-mismatch": "call",
    "route-mismatch": "route",
    "env-mutation": "env",
    "subprocess": "process",
    "native-load": "load",
}

_NAME_WIDTH = 28  # what a module's name keeps for itself, in columns
_GAP = 2  # between columns: a blank of padding and the blank that the box draws


def tables(rows: Sequence[Row], results: Results, console: Console) -> Iterator[Table | Text]:
    """The matrix in as many blocks of machines as the width asks for, then what the short names mean."""
    room = console.width - _NAME_WIDTH
    machines = range(len(results.machines))
    short = sum(_width(rows, results.machines, i, short=False) for i in machines) > room
    widths = [_width(rows, results.machines, i, short) for i in machines]
    for block in _blocks(widths, room):
        yield _table(rows, results.machines, block, console.width - sum(widths[i] for i in block), short)
    if short:
        used = {cell.strip("()") for row in rows for cell in row.cells}
        meanings = [f"{SHORT[kind]} = {kind}" for kind in SEVERITY if kind in used and kind in SHORT]
        if meanings:
            yield Text(f"{', '.join(meanings)}", style="dim")


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Runs of machines whose columns fit into `room`; one machine at the least."""
    start = used = 0
    for index, width in enumerate(widths):
        if index > start and used + width > room:
            yield range(start, index)
            start, used = index, 0
        used += width
    yield range(start, len(widths))


def _width(rows: Sequence[Row], machines: Sequence[MachineColumn], index: int, short: bool) -> int:
    machine = machines[index]
    labels = [clean(machine.id), clean(machine.platform), *(_label(row.cells[index], short) for row in rows)]
    return max(map(len, labels)) + _GAP


def _table(rows: Sequence[Row], machines: Sequence[MachineColumn], block: range, room: int, short: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
    names = [_name(row) for row in rows]
    table.add_column("", overflow="fold", width=min(max([*(len(name) for name in names), 1]), max(room - _GAP, 12)))
    for index in block:
        header = Text(f"{clean(machines[index].platform)}\n{clean(machines[index].id)}")
        table.add_column(header, no_wrap=True, width=_width(rows, machines, index, short) - _GAP)
    for name, row in zip(names, rows, strict=True):
        table.add_row(name, *(_cell(row.cells[index], short) for index in block))
    return table


def _name(row: Row) -> Text:
    name = Text(clean(row.name))
    if row.count > 1:
        name.append(f" ({plural(row.count, 'module')})", style="dim")
    return name


def _label(cell: str, short: bool) -> str:
    if not short:
        return cell
    kind = cell.strip("()")
    return cell.replace(kind, SHORT.get(kind, kind))


def _cell(cell: str, short: bool) -> Text:
    if cell.endswith("ok"):
        style = "green"
    elif cell == "-" or cell.startswith("("):
        style = "dim"
    else:
        style = "bold red"
    return Text(_label(cell, short), style=style)
