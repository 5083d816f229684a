"""What many modules import is executed once for a machine, whatever else their package does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage

COUNT = "import os\nwith open(os.environ['COUNTED'], 'a') as file:\n    file.write('x')\n"
FINDER = """\
    import sys


    class Finder:
        def find_spec(name, path=None, target=None):
            return None


    sys.meta_path.insert(0, Finder)
"""


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("", ""),
        # Who is asked before the usual finders and answers for nothing here.
        (FINDER, ""),
        # Its OpenBLAS starts threads that end at a fork.
        ("", "import numpy\n"),
    ],
    ids=["plain", "finder", "threads"],
)
def test_what_many_import_is_executed_once(package: str, heavy: str, tmp_path: Path) -> None:
    if "numpy" in heavy and importlib.util.find_spec("numpy") is None:
        pytest.skip("numpy is not installed")
    counted = tmp_path / "counted"
    counted.touch()
    write(tmp_path, {"pkg/__init__.py": package, "pkg/heavy.py": heavy + COUNT})
    names = [f"pkg.leaf{number:02}" for number in range(40)]
    write(tmp_path, {f"{name.replace('.', '/')}.py": "import pkg.heavy\n" for name in names})
    with Stage(torch=False) as stage:
        h100 = machines.resolve("h100")
        checks = [Check(name, h100, path=(str(tmp_path),), env={"COUNTED": str(counted)}) for name in names]
        assert {record.verdict for record in stage.scan(checks)} == {"ok"}
    # Once in the tree, and once in each fork that confirmed a record.
    assert len(counted.read_text()) <= 4
