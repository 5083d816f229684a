"""Many checks, and runs that are disturbed: nothing grows, nothing is lost, nothing is left.

    python harness/benchmarks/soak.py [--python PATH] [--checks N] [--faults N] [--seed S] [--json FILE]

--checks N runs N checks over a mix of small subjects and machines, in a tenth after another, and prints what has grown
between the fifth of them and the end. --faults N makes N runs of the command line that are disturbed (faults.py), and
counts what went wrong. Ends with status 1 where something grew over its limit, or went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import faults
from proctree import below, state

from masquerade import machines
from masquerade.stage import Check, Stage

MACHINES = ("h100", "mi300x", "b580", "epyc-9655")


class Subject(NamedTuple):
    """A module, the verdict that it must give on every machine, and how often it comes."""

    source: str
    verdict: str
    often: int = 4
    timeout: float = 30.0


#: `touches` needs no torch: it opens a device below it, as the management libraries' callers do not.
SUBJECTS = {
    "clean": Subject("import json\nVALUE = json.dumps(1)\n", "ok", 12),
    "vendor": Subject("import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: pass\n", "", 4),
    "raises": Subject("raise KeyError('x')\n", "import-error"),
    "crashes": Subject("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "crash"),
    "leaves": Subject("import os\nos._exit(0)\n", "exit"),
    "hangs": Subject("import time\ntime.sleep(60)\n", "timeout", 1, 0.3),
    "threads": Subject("import threading, time\n[threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
                       " for _ in range(8)]\n", "thread"),
    "children": Subject("import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\n", "subprocess"),
    "files": Subject("import tempfile\nFOLDER = tempfile.TemporaryDirectory()\n"
                     "OPEN = [tempfile.TemporaryFile() for _ in range(20)]\n", "ok"),
    "large": Subject("KEPT = bytearray(32 << 20)\n", "ok"),
    "loud": Subject("print('x' * (1 << 20))\n", "ok"),
}  # fmt: skip

#: On an NVIDIA machine its own library was loaded; on another one a foreign one.
LIBRARY = {"h100": "native-load", "mi300x": "forbidden-native", "b580": "forbidden-native"}


def chosen(torch: bool) -> dict[str, Subject]:
    """The subjects by name. The one that touches a device needs torch."""
    touches = "import torch\ntry: torch.cuda.get_device_capability()\nexcept Exception: pass\n"
    return SUBJECTS | ({"touches": Subject(touches, "device-init", 8)} if torch else {})


def mix(folder: Path, subjects: Mapping[str, Subject], count: int, chance: random.Random) -> list[Check]:
    """`count` checks, each of a module of its own, whose name begins with its subject's."""
    checks = []
    names = chance.choices(list(subjects), [subject.often for subject in subjects.values()], k=count)
    for number, name in enumerate(names):
        module, machine = f"{name}_{number}", machines.resolve(chance.choice(MACHINES))
        (folder / f"{module}.py").write_text(subjects[name].source)
        checks.append(Check(module, machine, path=(str(folder),), timeout=subjects[name].timeout, settle=0.05))
    return checks


class Held(NamedTuple):
    """What this process and all below it hold while nothing runs."""

    processes: int
    zombies: int
    threads: int
    descriptors: int
    megabytes: float
    files: int

    @classmethod
    def now(cls, temporary: Path) -> Held:
        pids = [os.getpid(), *below(os.getpid())]
        zombies = [pid for pid in pids if state(pid) == "Z"]
        living = [Path(f"/proc/{pid}") for pid in pids if pid not in zombies]
        kilobytes = [
            int(row.split()[1])
            for process in living
            for row in (process / "smaps_rollup").read_text().splitlines()
            if row.startswith("Private_")
        ]
        return cls(
            len(living),
            len(zombies),
            sum(len(os.listdir(process / "task")) for process in living),
            sum(len(os.listdir(process / "fd")) for process in living),
            sum(kilobytes) / 1000,
            sum(1 for _ in temporary.rglob("*")),
        )


#: Tenths until each server has worn each machine: until then there is a process more now and then, for good.
WARM = 5

#: The most that each may grow between the warm tenth and the end. Memory: the tool keeps the source of each module that
#: it has blamed, and what the allocator keeps.
LIMITS = Held(0, 0, 0, 0, 8.0, 0)


def wanted(check: Check, subjects: Mapping[str, Subject]) -> str:
    return subjects[check.subject.partition("_")[0]].verdict or LIBRARY.get(check.machine.id, "forbidden-native")


def soak(python: str, count: int, seed: int, temporary: Path) -> dict[str, object]:
    """Run `count` checks: a tenth by `run_all`, its second half as a scan, and so on. Prints as it goes."""
    chance, wrong, made = random.Random(seed), Counter[str](), Counter[str]()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=temporary.parent) as name, Stage(python, jobs=2) as stage:
        folder = Path(name)
        subjects = chosen(bool(stage.facts["torch"]))
        first = last = None
        for tenth in range(1, 11):
            checks = mix(folder, subjects, count // 10, chance)
            half = len(checks) // 2
            for part, run in ((checks[:half], stage.run_all), (checks[half:], stage.scan)):
                left = Counter(check.id for check in part)
                by_id = {check.id: check for check in part}
                for record in run(part):
                    left[record.id] -= 1
                    made[record.verdict] += 1
                    if record.verdict != wanted(by_id[record.id], subjects):
                        wrong[f"{record.id}: {record.verdict}"] += 1
                wrong["lost"] += sum(abs(number) for number in left.values())
            last = Held.now(temporary)
            first = last if tenth <= WARM else first
            rows = "  ".join(f"{key} {value:.9g}" for key, value in last._asdict().items())
            print(f"{sum(made.values()):6} checks  {time.monotonic() - started:5.0f} s  {rows}", flush=True)
    assert first is not None and last is not None
    grown = {key: round(b - a, 1) for key, a, b in zip(Held._fields, first, last, strict=True)}
    wrong = Counter({key: number for key, number in wrong.items() if number})
    over = [key for key, limit in LIMITS._asdict().items() if grown[key] > limit]
    after = sum(1 for _ in temporary.rglob("*"))
    return {
        "checks": sum(made.values()), "seconds": round(time.monotonic() - started), "verdicts": dict(made),
        "first": first._asdict(), "last": last._asdict(), "grown": grown, "over": over,
        "wrong": dict(wrong), "files after": after, "good": not (over or wrong or after),
    }  # fmt: skip


def show(title: str, rows: Mapping[str, object]) -> None:
    print(f"\n{title}")
    for key, value in rows.items():
        print(f"  {key:12} {value}")


def main(words: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the subjects' interpreter")
    parser.add_argument("--checks", type=int, default=0, help="how many checks to make; a multiple of ten")
    parser.add_argument("--faults", type=int, default=0, help="how many disturbed runs to make")
    parser.add_argument("--seed", type=int, default=0, help="what subjects, machines and moments are drawn with")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    asked = parser.parse_args(words if words is None else list(words))
    if not asked.checks and not asked.faults:
        parser.error("nothing to do: give --checks N, --faults N or both")
    figures: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        temporary = Path(name) / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        if asked.checks:
            figures["soak"] = soak(asked.python, asked.checks, asked.seed, temporary)
            show("Soak", figures["soak"])
        if asked.faults:
            figures["faults"] = faults.disturb(asked.python, asked.faults, asked.seed, Path(name))
            show("Faults", figures["faults"])
    if asked.json:
        asked.json.write_text(json.dumps({"schema": 1, "seed": asked.seed, **figures}, indent=2) + "\n")
    return 0 if all(part["good"] for part in figures.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
