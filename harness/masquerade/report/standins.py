"""Stand-ins that a run executed: each report names them, so that nobody takes them for the real thing."""

from __future__ import annotations

from masquerade.report.results import Results
from masquerade.report.text import clean, clip, plural

TITLE = "Not the real modules: stand-ins were executed in their place"

_MOST_MACHINES = 8


def lines(results: Results) -> list[str]:
    """A line for each module that was stood in for: `pkg._C: 12 checks on h100, mi355x`. Clean text."""
    out = []
    for name, records in results.stand_ins.items():
        machines = list(dict.fromkeys(record.machine for record in records))
        rest = len(machines) - _MOST_MACHINES
        where = ", ".join(machines[:_MOST_MACHINES]) + (f" and {rest} more" if rest > 0 else "")
        out.append(clean(f"{clip(name)}: {plural(len(records), 'check')} on {where}"))
    return out
