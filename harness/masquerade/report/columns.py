"""Columns of the matrix: a machine each, or several of one platform that fare alike where the width asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from masquerade.report.results import MachineColumn
from masquerade.report.rows import Row
from masquerade.report.text import clean

#: Blank columns between two columns of the matrix.
GAP = 2

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


@dataclass(frozen=True)
class Column:
    """What `machines`, all of one platform, show in each row."""

    platform: str
    machines: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """`h100`, or `h100 +16` for as many others."""
        others = len(self.machines) - 1
        return f"{self.machines[0]} +{others}" if others else self.machines[0]

    @property
    def width(self) -> int:
        return max(map(len, (self.platform, self.name, *self.cells))) + GAP

    def shortened(self) -> Column:
        """The same with short names in the cells."""
        return Column(self.platform, self.machines, tuple(map(_short, self.cells)))


def shared_variant(machines: Sequence[MachineColumn]) -> str:
    """What several machines all have behind their names, `-bitsandbytes+aiter`. Empty if nothing."""
    first, *others = [clean(machine.id) for machine in machines] or [""]
    endings = (first[place:] for place in range(1, len(first)) if first[place] in "+-")
    return next((end for end in endings if others and all(name.endswith(end) for name in others)), "")


def columns(rows: Sequence[Row], machines: Sequence[MachineColumn], room: int) -> list[Column]:
    """The fullest columns that fit side by side into `room`; if none do, the narrowest.

    Where full names do not fit, they go without what all machines share.
    """
    shared = shared_variant(machines)
    each = [
        Column(clean(machine.platform), (clean(machine.id),), tuple(row.cells[index] for row in rows))
        for index, machine in enumerate(machines)
    ]
    named = [*_widths(each)]
    if shared:
        named += _widths([Column(c.platform, (c.name.removesuffix(shared),), c.cells) for c in each])
    return next((found for found in named if sum(c.width for c in found) <= room), named[-1])


def _widths(each: list[Column]) -> Iterator[list[Column]]:
    """The columns, fullest first: as they are, with short names in the cells, and folded."""
    folded = list(_folded(each))
    for found in (each, folded):
        yield found
        yield [column.shortened() for column in found]


def blocks(found: Sequence[Column], room: int) -> Iterator[Sequence[Column]]:
    """Runs of columns that fit into `room`; one column at the least."""
    start = used = 0
    for index, column in enumerate(found):
        if index > start and used + column.width > room:
            yield found[start:index]
            start, used = index, 0
        used += column.width
    yield found[start:]


def _folded(each: Sequence[Column]) -> Iterator[Column]:
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for column in each:
        alike.setdefault((column.platform, column.cells), []).extend(column.machines)
    for (platform, cells), machines in alike.items():
        yield Column(platform, tuple(machines), cells)


def _short(cell: str) -> str:
    kind = cell.strip("()")
    return cell.replace(kind, SHORT.get(kind, kind)) if kind else cell
