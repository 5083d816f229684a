"""Modules of real packages, by fork and in fresh interpreters: the same verdict and the same blamed lines, both ways.

    python harness/benchmarks/fresh.py PACKAGE... [--python PATH] [--path DIR] [--sample N] [--on M,M] [--jobs N]

Draws N modules from all that the packages hold, checks each by trees and forks and in an interpreter of its own, and
prints those that differ. Ends with status 1 where one does, and says what both ways cost.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from masquerade import machines
from masquerade.stage import Check, Record, Stage


def told(record: Record) -> tuple[str, frozenset[tuple[str, str, str, str]]]:
    """What both ways must agree on: the verdict, and of each finding its kind, what, phase and line."""
    return record.verdict, frozenset((f.kind, f.what, f.phase, str(f.blame)) for f in record.findings)


def run(stage: Stage, checks: list[Check]) -> tuple[dict[str, Record], float]:
    started = time.monotonic()
    records = {record.id: record for record in stage.scan(checks)}
    return records, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--on", default="h100")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=180.0)
    asked = parser.parse_args()
    with Stage(asked.python, jobs=asked.jobs) as forks, Stage(asked.python, "fresh", jobs=asked.jobs) as fresh:
        modules = sorted({name for package in asked.packages for name in forks.discover(package, asked.path).modules})
        drawn = sorted(random.Random(asked.seed).sample(modules, min(asked.sample, len(modules))))
        on = [machines.resolve(name) for name in asked.on.split(",")]
        checks = [
            Check(module, machine, path=tuple(asked.path), timeout=asked.timeout) for machine in on for module in drawn
        ]
        by_fork, quick = run(forks, checks)
        alone, slow = run(fresh, checks)
    differ = [check.id for check in checks if told(by_fork[check.id]) != told(alone[check.id])]
    verdicts = ", ".join(
        f"{count} {verdict}" for verdict, count in Counter(r.verdict for r in alone.values()).most_common()
    )
    print(f"{len(drawn)} of {len(modules)} modules on {len(on)} machines: {len(checks)} checks; {verdicts}")
    print(f"by fork {quick:.1f} s, in fresh interpreters {slow:.1f} s; {len(differ)} differ")
    for name in differ:
        print(f"  {name}")
        for way, record in (("by fork", by_fork[name]), ("fresh", alone[name])):
            print(
                f"    {way}: {record.verdict}",
                *(f"{f.kind} {f.what} at {f.blame}" for f in record.findings),
                sep="\n      ",
            )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
