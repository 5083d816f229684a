"""The kernels that were launched: what each was compiled to on each machine, and what it takes there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from masquerade.report.results import Results
from masquerade.report.text import clean, clip

#: Constants of a kernel that are shown; the JSON report has them all.
_MOST_CONSTANTS = 6


def table(results: Results) -> Table | None:
    """A row for each launch; None where nothing was launched."""
    rows = [(record.machine, launch) for record in results.ordered for launch in record.launches]
    if not rows:
        return None
    out = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, title="Launches", title_justify="left")
    for name in ("kernel", "machine", "matrix instructions"):
        out.add_column(name, overflow="fold")
    for name in ("shared", "registers", "spills", "warps", "stages", "compiled"):
        out.add_column(name, justify="right")
    last = ""
    for machine, launch in sorted(rows, key=lambda row: (_kernel(row[1]), _constants(row[1]))):
        name = "\n".join(part for part in (_kernel(launch), _constants(launch)) if part)
        out.add_row(Text("" if name == last else name), Text(clean(machine)), *_cells(launch))
        last = name
    return out


def _kernel(launch: Mapping[str, Any]) -> str:
    line = launch.get("line") or launch.get("place")
    where = f"  {clean(str(line['file']))}:{line['line']}" if line else ""
    return f"{clip(clean(str(launch['kernel'])), 60)}{where}"


def _constants(launch: Mapping[str, Any]) -> str:
    known = [f"{clean(str(k))}={clip(clean(str(v)), 20)}" for k, v in dict(launch.get("constants") or {}).items()]
    return ", ".join(known[:_MOST_CONSTANTS]) + (", ..." if len(known) > _MOST_CONSTANTS else "")


def _cells(launch: Mapping[str, Any]) -> Iterator[str | Text]:
    if launch.get("pruned"):
        yield Text(f"dropped by the autotuner: {clip(clean(str(launch['pruned'])))}", style="yellow")
        yield from [""] * 3
    else:
        yield Text(instructions(launch))
        yield _shared(launch)
        yield Text(clean(str(launch.get("registers", "unknown"))))
        spills = launch.get("spills", "unknown")
        yield Text(clean(str(spills)), style="yellow" if spills not in (0, "unknown") else "")
    yield Text(clean(str(launch.get("num_warps", ""))))
    yield Text(clean(str(launch.get("num_stages", ""))))
    seconds = launch.get("seconds", 0)
    yield f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else ""


def instructions(launch: Mapping[str, Any]) -> str:
    """The families of matrix instruction, or `none`."""
    return ", ".join(clean(str(name)) for name in launch.get("instructions") or {}) or "none"


def _shared(launch: Mapping[str, Any]) -> str:
    """`72 of 227 KiB`; rounded up, as what does not fit must not look as if it did."""
    used, limit = (launch.get(name) for name in ("shared", "shared_limit"))
    if not isinstance(used, int):
        return "unknown"
    told = f"{-(-used // 1024)}"
    return f"{told} of {limit // 1024} KiB" if isinstance(limit, int) else f"{told} KiB"
