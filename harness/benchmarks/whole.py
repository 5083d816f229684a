"""Every module of a package on several machines, by traces or trees, beside flat forks and fresh interpreters.

    python harness/benchmarks/whole.py PACKAGE --on M,M [--python PATH] [--path DIR] [--stand-in MODULE[=OTHER]]
                                       [--flat N] [--fresh N] [--traces-from N] [--jobs N] [--reads]

Scans all, prints how long that took and the most memory that tool and servers had; then makes N checks, drawn from all,
in flat forks and compares verdict, findings and chains; then N in fresh interpreters, from which it works out how long
all would take so. Ends with status 1 where one differs. With --reads the scan takes down what its checks read, as
one does whose results are kept.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from masquerade import machines
from masquerade.stage import Check, Record, Stage, fast


def told(record: Record) -> tuple[object, ...]:
    """What two ways must agree on."""
    findings = frozenset((f.kind, f.what, f.phase, f.blame, f.chain) for f in record.findings)
    return record.verdict, findings


class Memory(threading.Thread):
    """The most memory that this process and all below it had together, shared pages counted once. In MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, sum(map(_share, _below(os.getpid()))) / 1024)
            time.sleep(2.0)


def _below(pid: int) -> Iterable[int]:
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{entry}/stat").read_text(errors="replace")
        except OSError:
            continue
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def _share(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("Pss:")[1].split()[0])
    except (OSError, IndexError):
        return 0


def timed(stage: Stage, checks: list[Check], way: str) -> tuple[dict[str, Record], float]:
    started, records = time.monotonic(), {}
    for record in (stage.scan if way == "scan" else stage.run_all)(checks):
        records[record.id] = record
        if len(records) % 500 == 0:
            print(f"  {way}: {len(records)} of {len(checks)}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return records, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--on", default="h100,mi300x,b580,spr")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--stand-in", action="append", default=[])
    parser.add_argument("--flat", type=int, default=200)
    parser.add_argument("--fresh", type=int, default=50)
    parser.add_argument("--traces-from", type=int, default=fast.WORTH_A_TRACE)
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=120.0)
    asked = parser.parse_args()
    fast.WORTH_A_TRACE = asked.traces_from
    replaced = {name: other for name, _, other in (word.partition("=") for word in asked.stand_in)}
    memory = Memory()
    memory.start()
    with Stage(asked.python, jobs=asked.jobs) as stage:
        modules = stage.discover(asked.package, asked.path).modules
        on = [machines.resolve(name) for name in asked.on.split(",")]
        checks = [
            Check(name, machine, path=tuple(asked.path), stand_ins=replaced, timeout=asked.timeout)
            for machine in on
            for name in modules
        ]
        stage.reads = asked.reads
        scanned, seconds = timed(stage, checks, "scan")
        stage.reads = False
        agreement = stage.agreement
        print(f"{asked.package}: {len(modules)} modules on {len(on)} machines, {len(checks)} checks in {seconds:.0f} s")
        print(f"at most {memory.peak:.0f} MB; {agreement.confirmed} confirmed, {len(agreement.differed)} differed")
        print(
            ", ".join(f"{count} {verdict}" for verdict, count in Counter(r.verdict for r in scanned.values()).items())
        )
        drawn = random.Random(asked.seed).sample(checks, min(asked.flat, len(checks)))
        flat, seconds = timed(stage, sorted(drawn, key=lambda check: check.machine.id), "flat")
    differ = [name for name, record in flat.items() if told(record) != told(scanned[name])]
    print(f"{len(flat)} in flat forks: {seconds:.0f} s, {len(differ)} differ", *differ, sep="\n  ")
    with Stage(asked.python, "fresh", jobs=asked.jobs) as stage:
        drawn = random.Random(asked.seed + 1).sample(checks, min(asked.fresh, len(checks)))
        fresh, seconds = timed(stage, drawn, "fresh")
    if fresh:
        odd = [name for name, record in fresh.items() if told(record) != told(scanned[name])]
        print(f"{len(fresh)} in fresh interpreters: {seconds:.0f} s, {len(odd)} differ", *odd, sep="\n  ")
        print(f"all would take {seconds / len(fresh) * len(checks) / 3600:.1f} h so")
        differ += odd
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
