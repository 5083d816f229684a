"""The table of faults in README.md: how many there are of each kind, and who sees them."""

from __future__ import annotations

from .faults import Fault


def table(listed: list[Fault]) -> str:
    """The table of README.md: the kinds of fault, how many there are and were in pull requests, and who sees them."""
    kinds = sorted({fault.kind for fault in listed}, key=lambda kind: (-len(_of(listed, kind)), kind))
    rows = [("kind of fault", "faults", "in pull requests", "seen by")]
    for kind in kinds:
        found = _of(listed, kind)
        rows.append((kind, *_counts(found), ", ".join(sorted({_seen_by(fault) for fault in found}))))
    rows.append(("all", *_counts(listed), ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    return "".join(f"| {' | '.join(map(str.ljust, row, widths))} |\n" for row in rows)


def _of(listed: list[Fault], kind: str) -> list[Fault]:
    return [fault for fault in listed if fault.kind == kind]


def _counts(listed: list[Fault]) -> tuple[str, str]:
    return str(len(listed)), str(sum(fault.origin != "own" for fault in listed))


def _seen_by(fault: Fault) -> str:
    """The suite in a word; imports are contracts of suites/calls too."""
    if fault.suite == "suites/calls":
        return "imports" if fault.select.startswith("importing") else "calls"
    return {"suites/routing": "routing", "suites/numerics": "numerics"}.get(
        fault.suite.rpartition("/")[0], "unit tests"
    )
