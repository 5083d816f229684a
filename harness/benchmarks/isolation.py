"""What isolation costs: times as ratios measured in one run, and memory.

    python harness/benchmarks/isolation.py [--python PATH] [--checks N] [--json FILE]

Prints a table; --json FILE writes the figures. Ends with status 1 where a figure misses its limit. Times of different
kinds are taken in turn, so that a busy machine slows all of them alike; each is the median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from masquerade import machines
from masquerade.stage import Check, Record, Stage
from masquerade.stage.fast import WORTH

MACHINE = "h100"

#: A forked process's clock starts at the fork, and this is the subject's first line.
SPENT = "import time\nSECONDS = time.process_time()\n\ndef before():\n    return SECONDS\n"


class Figure(NamedTuple):
    """One line of the table. `limit` is the most that it may be; None where it is told for its own sake."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def met(self) -> bool:
        return self.limit is None or self.value <= self.limit


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turn(rounds: int, works: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, list[float]]:
    """The seconds that each work takes, given as name -> (how often a round, work)."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, (often, work) in works.items():
            times[name] += [timed(work) for _ in range(often)]
    return times


def clean(record: Record) -> Record:
    """`record`, which must be ok: a check that fails early would look cheap."""
    assert record.verdict == "ok", record
    return record


def isolation(stage: Stage, fresh: Stage, check: Callable[..., Check]) -> Iterable[Figure]:
    """A check by fork beside the same check in a fresh interpreter."""

    def once(stage: Stage, on: str) -> Callable[[], object]:
        asked = check(on)
        return lambda: [clean(record) for record in stage.run_all([asked])]

    times = in_turn(
        6,
        {
            "fork": (20, once(stage, MACHINE)),
            "fresh": (1, once(fresh, MACHINE)),
            "torch": (1, lambda: subprocess.run([stage.python, "-c", "import torch"], check=True)),
        },
    )
    took = {name: statistics.median(taken) for name, taken in times.items()}
    yield Figure("a check by fork", took["fork"] * 1000, "ms")
    yield Figure("the same check in a fresh interpreter", took["fresh"] * 1000, "ms")
    yield Figure("import torch alone, in a fresh interpreter", took["torch"] * 1000, "ms")
    yield Figure("fork / fresh", took["fork"] / took["fresh"], "", 1 / 80)


def disguise(stage: Stage, check: Callable[..., Check]) -> Iterable[Figure]:
    """The processor's time that a child takes before its subject, with and without a machine to wear.

    Each check has an environment of its own: a server that wears the machine already would have paid for it.
    """

    def spent(on: str) -> float:
        asked = (check(on, "spent:before", env={"NUMBER": str(number)}) for number in range(40))
        return statistics.median(clean(record).result for record in stage.run_all(asked))

    yield Figure("the disguise, processor's time", (spent(MACHINE) - spent("here")) * 1000, "ms", 5)


def scan(stage: Stage, check: Callable[..., Check], folder: Path, fresh_ms: float) -> Iterable[Figure]:
    """Checks in a row, as a scan makes them."""
    count = 20 * WORTH
    for number in range(count):
        (folder / f"small_{number}.py").write_text("import json\nimport torch\n")
    asked = [check(MACHINE, f"small_{number}") for number in range(count)]
    seconds = timed(lambda: [clean(record) for record in stage.scan(asked)]) / count
    yield Figure(f"a check of a scan of {count} modules", seconds * 1000, "ms")
    yield Figure("scan / fresh", seconds * 1000 / fresh_ms, "", 1 / 80)


def command() -> Iterable[Figure]:
    """masquerade's own start."""
    words = [sys.executable, "-m", "masquerade", "--help"]
    took = in_turn(9, {"help": (1, lambda: subprocess.run(words, check=True, capture_output=True))})["help"]
    yield Figure("masquerade --help", statistics.median(took), "s", 0.3)
    loaded = subprocess.run([words[0], "-X", "importtime", *words[1:]], check=True, capture_output=True, text=True)
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in loaded.stderr.splitlines()}
    yield Figure("modules of torch that it imports", len(modules & {"torch", "triton", "numpy"}), "", 0)


def status(pid: int) -> tuple[float, float]:
    """(resident, private) megabytes of a process."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()

    def megabytes(name: str) -> float:
        return sum(int(row.split()[1]) for row in rows if row.startswith(name)) / 1000

    return megabytes("Rss:"), megabytes("Private_")


def memory(stage: Stage, check: Callable[..., Check], checks: int) -> Iterable[Figure]:
    """The server's memory before and after many checks, and a trivial child's own."""
    server = stage.processes[0]  # a scan before may have started another one
    before, private = status(server)
    yield Figure("server, resident", before, "MB", 300)
    yield Figure("server, of that its own", private, "MB")
    for record in stage.run_all(check(MACHINE) for _ in range(checks)):
        clean(record)
    yield Figure(f"server, grown by {checks} checks", status(server)[0] - before, "MB", 1)
    for on in (MACHINE, "here"):
        own = [clean(record).private_bytes or 0 for record in stage.run_all(check(on, measure=True) for _ in range(9))]
        yield Figure(f"a trivial child on {on}, own memory", statistics.median(own) / 1e6, "MB", 5)
    asked = [check(MACHINE, measure=True) for _ in range(2 * WORTH)]
    own = [clean(record).private_bytes or 0 for record in stage.scan(asked)]
    yield Figure("a trivial child of a scan, own memory", statistics.median(own) / 1e6, "MB", 5)


def measure(python: str, checks: int) -> tuple[dict[str, Any], list[Figure]]:
    """The subject's environment and all figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Stage(python) as stage,
        Stage(python, isolation="fresh") as fresh,
    ):
        (Path(folder) / "small.py").write_text("import json\nimport torch\n\nVALUE = json.dumps(1)\n")
        (Path(folder) / "spent.py").write_text(SPENT)

        def check(on: str, subject: str = "small", **more: Any) -> Check:
            return Check(subject, machines.resolve(on), path=(folder,), **more)

        facts, _ = stage.facts, fresh.facts
        if not facts["torch"]:
            raise SystemExit(f"{python} has no torch, and what isolation costs is measured against importing it")
        figures = [*isolation(stage, fresh, check)]
        figures += disguise(stage, check)
        figures += scan(stage, check, Path(folder), figures[1].value)
        figures += memory(stage, check, checks)
    return {key: facts[key] for key in ("python", "torch", "system")}, [*figures, *command()]


def show(figures: Iterable[Figure]) -> None:
    for figure in figures:
        limit = "" if figure.limit is None else f"at most {figure.limit:.4g}"
        verdict = "" if figure.limit is None else "met" if figure.met else "MISSED"
        print(f"{figure.name:46} {figure.value:10.4g} {figure.unit:3} {limit:>14}  {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the subject's interpreter, with torch")
    parser.add_argument("--checks", type=int, default=2000, help="how many checks the server's growth is measured over")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    chosen = parser.parse_args()
    environment, figures = measure(chosen.python, chosen.checks)
    show(figures)
    if chosen.json:
        rows = [{**figure._asdict(), "met": figure.met} for figure in figures]
        chosen.json.write_text(json.dumps({"schema": 1, "environment": environment, "figures": rows}, indent=2) + "\n")
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
