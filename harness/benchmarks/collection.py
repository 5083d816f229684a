"""What collecting contract items costs, beside collecting as many plain tests of pytest's own: a ratio in one run.

    python harness/benchmarks/collection.py [--items N]

Run it where masquerade is installed, or with PYTHONPATH=harness. Ends with status 1 where a figure misses its limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MACHINES = 4
ROUNDS = 3

CONTRACTS = """\
machines = ["h100", "mi300x", "b580", "cpu"]
path = ["."]

[[contracts]]
name = "lazy"
kind = "imports"
modules = ["many"]
"""

PLAIN = "import pytest\n@pytest.mark.parametrize('number', range({}))\ndef test_plain(number): pass\n"

#: Says at the end of a session whether torch was imported.
CONFTEST = "import sys\ndef pytest_unconfigure(config):\n    print('torch', 'torch' in sys.modules)\n"


def collect(folder: Path, plugin: bool) -> tuple[float, str]:
    """(seconds, what pytest printed) of collecting what lies in `folder`."""
    named = [] if not plugin else ["--contracts"] if _installed() else ["--contracts", "-p", "masquerade.plugin"]
    started = time.perf_counter()
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", *named]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - started, done.stdout


def _installed() -> bool:
    from importlib import metadata

    return any(point.value == "masquerade.plugin" for point in metadata.entry_points(group="pytest11"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=5000)
    items = parser.parse_args().items
    with tempfile.TemporaryDirectory() as name:
        contracts, plain = Path(name, "contracts"), Path(name, "plain")
        for folder in (contracts, plain):
            folder.mkdir()
            (folder / "conftest.py").write_text(CONFTEST)
            (folder / "pytest.ini").write_text("[pytest]\n")
        (contracts / "masquerade.toml").write_text(CONTRACTS)
        package = contracts / "many"
        package.mkdir()
        (package / "__init__.py").write_text("")
        for number in range(items // MACHINES - 1):
            (package / f"m{number}.py").write_text("")
        (plain / "test_plain.py").write_text(PLAIN.format(items))
        times: dict[str, list[float]] = {"contracts": [], "plain": []}
        for _ in range(ROUNDS):
            for folder in (contracts, plain):
                seconds, printed = collect(folder, folder is contracts)
                times[folder.name].append(seconds)
                # Beside its checks a contract has an item for what only the whole shows.
                assert f"{items + (folder is contracts)} tests collected" in printed, printed[-500:]
                if folder is contracts:
                    assert "torch False" in printed, "collecting imported torch"
    ours, theirs = min(times["contracts"]), min(times["plain"])
    print(f"{items} contract items collected   {ours:8.2f} s   at most 3  {'met' if ours <= 3 else 'MISSED'}")
    print(f"{items} plain tests collected      {theirs:8.2f} s")
    print(f"contract items / plain tests     {ours / theirs:8.2f}")
    return 0 if ours <= 3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
