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


def verdicts(folder: Path, files: dict[str, str], names: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What trees say of the modules, and what forks of their own say."""
    write(folder, files)
    with Stage(torch=False) as stage:
        h100 = machines.resolve("h100")
        checks = [Check(name, h100, path=(str(folder),)) for name in names]
        trees = {record.subject: record.verdict for record in stage.scan(checks)}
        return trees, {record.subject: record.verdict for record in stage.run_all(checks)}


FAULT = "import os; os.environ['PKG_FAULT'] = '1'"


@pytest.mark.parametrize(
    ("base", "change", "seen"),
    [
        ("CFG = {'mode': 'cpu'}\n", "import pkg\npkg.CFG['mode'] = 'gpu'\n", "pkg.CFG['mode'] == 'gpu'"),
        ("class Cfg:\n    mode = 'cpu'\n", "import pkg\npkg.Cfg.mode = 'gpu'\n", "pkg.Cfg.mode == 'gpu'"),
        ("LIST = [0]\n", "import pkg\npkg.LIST[0] = 1\n", "pkg.LIST[0] == 1"),
    ],
    ids=["dict", "class", "list"],
)
def test_a_package_that_changes_others_in_place_is_not_apart(base: str, change: str, seen: str, tmp_path: Path) -> None:
    files = {"pkg/__init__.py": base, "pkg/big.py": f"import pkg\nif {seen}:\n    {FAULT}\n"}
    for number in range(8):
        files[f"pkg/s{number}/__init__.py"] = change if number == 3 else "A = 1\n"
        files |= {f"pkg/s{number}/m{place}.py": "import pkg.big\n" for place in range(4)}
    names = [f"pkg.s{number}.m{place}" for number in range(8) for place in range(4)]
    trees, flat = verdicts(tmp_path, files, names)
    assert list(flat.values()).count("env-mutation") == 4
    assert trees == flat


@pytest.mark.parametrize(
    ("base", "one", "other"),
    [
        ("import mmap\nM = mmap.mmap(-1, 8)\n", "pkg.base.M[0] = 1", f"if not pkg.base.M[0]:\n    {FAULT}"),
        (
            "import multiprocessing\nL = multiprocessing.get_context('fork').Lock()\n",
            "pkg.base.L.acquire()",
            f"if pkg.base.L.acquire(block=False):\n    {FAULT}",
        ),
    ],
    ids=["map", "lock"],
)
def test_what_lies_in_shared_memory_is_not_shared(base: str, one: str, other: str, tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/base.py": base}
    names = [f"pkg.m{number:02}" for number in range(32)]
    files |= {f"pkg/{name[4:]}.py": "import pkg.base\n" for name in names}
    files |= {"pkg/m03.py": f"import pkg.base\n{one}\n", "pkg/m07.py": f"import pkg.base\n{other}\n"}
    trees, flat = verdicts(tmp_path, files, names)
    assert flat["pkg.m07"] == "env-mutation"
    assert trees == flat
