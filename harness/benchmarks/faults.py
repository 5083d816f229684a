"""Runs of the command line that are disturbed: what is killed, full or gone, and what came of it.

Each run scans the same modules, one of which cannot be imported: no run may end with status 0. A run that goes on must
give every result; one that was ended must leave no process and no file. All moments are drawn from the seed.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from proctree import below, look, marked

#: More modules on a machine than a tree is worth, and some that take their time.
MODULES = {f"m{number:02}": "import time\ntime.sleep(0.02)\n" for number in range(30)}
MODULES["bad"] = "raise KeyError('x')\n"
MACHINES = ("h100", "mi300x")
WANTED = {
    f"import:pkg{'.' * bool(name)}{name}@{machine}": "import-error" if name == "bad" else "ok"
    for name in ("", *MODULES)
    for machine in MACHINES
}

#: Seconds after which a run that has not ended counts as hung, and a process as an orphan.
LONG, SOON = 120.0, 8.0

ENDED = {"SIGINT": (130, -signal.SIGINT), "SIGTERM": (143, -signal.SIGTERM), "SIGKILL": (-signal.SIGKILL,)}


class Run:
    """One scan, in a folder of its own; the temporary folder is that of all."""

    def __init__(
        self, root: Path, python: str, number: int, limit: int | None = None, report: str = "", cache: str = ""
    ) -> None:
        self.folder = root / f"run{number}"
        self.folder.mkdir()
        self.report = Path(report or self.folder) / "r.json"
        self.mark = f"MASQUERADE_SOAK={number}-{os.getpid()}"
        name, _, value = self.mark.partition("=")
        environ = {**os.environ, name: value, "MASQUERADE_CACHE": str(root / "cache" / (cache or str(number)))}
        words = ["scan", "pkg", "--path", str(root / "subject"), "--on", ",".join(MACHINES), "-j", "2"]
        words += ["--python", python, "--report", f"json:{self.report}"]

        def limited() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        self.process = subprocess.Popen(
            [sys.executable, "-m", "masquerade", *words],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=limited,
        )  # fmt: skip

    def end(self) -> int:
        """Wait for its end; gives its exit status, and None for one that hung."""
        try:
            self.out, self.err = self.process.communicate(timeout=LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            return 1000
        return self.process.returncode

    def results(self) -> tuple[dict[str, str], bool]:
        """The verdict of each check, and whether the report calls itself interrupted. Raises ValueError."""
        kept = re.search(r"It is in (\S+)", self.err)
        file = self.report if self.report.is_file() else Path(kept[1]) if kept else None
        if file is None:
            return {}, True
        made = json.loads(file.read_text())
        if kept:
            file.unlink()
        return {check["id"]: check["verdict"] for check in made["checks"]}, made["interrupted"]

    def inner(self, kind: str) -> int | None:
        """A server of this run, or a process of it that serves: one that wears a machine, or grows a tree."""
        servers = {pid for pid in below(self.process.pid) if (p := look(pid)) and p.parent == self.process.pid}
        if kind == "server":
            return min(servers, default=None)
        # A check's own process leads a session of its own, a moment after its fork.
        for pid in sorted(pid for server in servers for pid in below(server)):
            first = look(pid)
            time.sleep(0.03)
            again = look(pid)
            if first and again and first.session == again.session != pid and again.state != "Z":
                return pid
        return None


class Fault(NamedTuple):
    """What a run met, and how it may end: the exit statuses; `whole` where every result must be there."""

    name: str
    status: tuple[int, ...]
    whole: bool
    moment: float
    act: Callable[[Run], bool]


def kill(what: str, number: signal.Signals) -> Callable[[Run], bool]:
    """Send a signal to the tool, to a server, or to a process that serves below one."""

    def act(run: Run) -> bool:
        pid = None
        while pid is None and run.process.poll() is None:  # at the next moment at which there is one
            pid = run.process.pid if what == "tool" else run.inner(what)
        if pid is None or run.process.poll() is not None:
            return False
        os.kill(pid, number)
        return True

    return act


def vanish(run: Run) -> bool:
    """The report's folder becomes a file, after masquerade has tried it."""
    while run.process.poll() is None and not below(run.process.pid):
        time.sleep(0.01)
    if run.process.poll() is not None:
        return False
    run.folder.rename(run.folder.with_suffix(".gone"))
    run.folder.touch()
    return True


def nothing(run: Run) -> bool:
    """The run is as it is from its start."""
    return True


def faults(seed: int, count: int, seconds: float) -> list[Fault]:
    """`count` faults, of each kind as many. `seconds` is what a run takes that nothing disturbs."""
    chance = random.Random(seed)
    kinds: list[tuple[str, tuple[int, ...], bool, Callable[[Run], bool]]] = []
    for name, ended in ENDED.items():
        number = signal.Signals[name]
        kinds.append((f"{name} to the tool", (*ended, 1), False, kill("tool", number)))
        kinds.append((f"{name} to a server", (1,), True, kill("server", number)))
        kinds.append((f"{name} to a process that serves below one", (1,), True, kill("serving", number)))
    kinds += [
        ("no file over some size", (3,), False, nothing),
        ("the disk full", (3,), False, nothing),
        ("the report's folder gone", (3, 1), True, vanish),
        ("two side by side", (1,), True, nothing),
    ]
    return [
        Fault(name, status, whole, chance.uniform(0, seconds), act)
        for name, status, whole, act in (kinds[number % len(kinds)] for number in range(count))
    ]


def prepare(root: Path) -> None:
    package = root / "subject" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, source in MODULES.items():
        (package / f"{name}.py").write_text(source)


def full_disk(root: Path) -> str:
    """A file system without a free byte; "" where none can be mounted."""
    place = root / "full"
    place.mkdir(exist_ok=True)
    if (
        not os.path.ismount(place)
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=16", "none", place], capture_output=True
        ).returncode
    ):
        return ""
    with suppress(OSError):
        (place / "filler").write_bytes(bytes(1 << 20))
    return str(place)


def judged(run: Run, fault: Fault, status: int) -> list[str]:
    """What is wrong with a run that has ended."""
    wrong = []
    if status == 0:
        wrong.append("status 0")
    if status not in fault.status:
        wrong.append(f"status {status}")
    if "Traceback" in run.err and status >= 0:
        wrong.append("traceback")
    try:
        results, interrupted = run.results()
    except (OSError, ValueError, KeyError):
        return [*wrong, "broken report"]
    if any(WANTED.get(name) != verdict for name, verdict in results.items()):
        wrong.append("wrong verdict")
    if (fault.whole or status == 1) and len(results) != len(WANTED):
        wrong.append("lost results")
    if len(results) < len(WANTED) and results and not interrupted:
        wrong.append("a part that calls itself whole")
    return wrong


def orphans(run: Run) -> list[str]:
    deadline = time.monotonic() + SOON
    while left := marked(run.mark):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return ["orphan"] * len(left)
        time.sleep(0.05)
    return []


def disturb(python: str, count: int, seed: int, root: Path) -> dict[str, object]:
    """Make `count` disturbed runs. Prints what went wrong as it goes; gives the counts."""
    prepare(root)
    temporary = Path(os.environ["TMPDIR"])
    wrong: Counter[str] = Counter()
    met: Counter[str] = Counter()
    undisturbed = Fault("none", (1,), True, 0.0, nothing)
    number, killed = 0, False

    def check(run: Run, fault: Fault) -> None:
        nonlocal killed
        status = run.end()
        killed = status == -signal.SIGKILL
        found = judged(run, fault, status) + orphans(run)
        beside = [path.name for path in run.folder.glob("*") if path.name != "r.json"] if run.folder.is_dir() else []
        found += ["leftover beside the report"] * (len(beside) if not killed else 0)
        if not killed and fault.name != "two side by side":
            found += [f"leftover: {path.name}" for path in temporary.iterdir()]
        for row in found:
            wrong[f"{fault.name}: {row}"] += 1
        if found:
            print(f"run {number}, {fault.name} after {fault.moment:.2f} s: {found}\n{run.err[-1500:]}", flush=True)

    started = time.monotonic()
    check(Run(root, python, number), undisturbed)
    seconds = time.monotonic() - started
    full = full_disk(root)
    try:
        for fault in faults(seed, count, seconds):
            number += 1
            if killed:  # the next run removes what a killed one left
                check(Run(root, python, number), undisturbed)
                number += 1
            if fault.name == "the disk full" and not full:
                met["not made: a full disk needs the right to mount"] += 1
                continue
            met[fault.name] += 1
            if fault.name == "two side by side":
                cache = f"of {number}"
                other = Run(root, python, number, cache=cache)
                number += 1
                run = Run(root, python, number, cache=cache)
                check(other, fault)
                check(run, fault)
                continue
            limit = int(fault.moment / seconds * 8192) if fault.name == "no file over some size" else None
            run = Run(root, python, number, limit, full if fault.name == "the disk full" else "")
            time.sleep(fault.moment)
            if not fault.act(run):
                met[f"{fault.name}, but nothing was there at that moment"] += 1
                met[fault.name] -= 1
            check(run, fault)
        number += 1
        check(Run(root, python, number), undisturbed)
    finally:
        if full:
            subprocess.run(["umount", full], check=False)
    left = [path.name for path in temporary.iterdir()]
    return {
        "runs": number + 1, "seconds": round(time.monotonic() - started), "met": dict(met), "wrong": dict(wrong),
        "left in the temporary folder": left, "good": not (wrong or left),
    }  # fmt: skip
