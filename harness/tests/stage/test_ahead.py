"""Imports that a tree makes ahead of their turn, where it is asked to: whoever could tell stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Record, Stage, wire

#: Makes a module worth a process of its own.
LARGE = "#" + " " * 150_000 + "\n"

COUNT = "open({log!r}, 'a').write('x')\n"
FAULT = "import os; os.environ['PKG_FAULT'] = '1'\n"


def package(heavy: str, ways: int = 24, **more: str) -> dict[str, str]:
    """A package whose modules all come to one large module, each by a way of its own."""
    files = {"pkg/__init__.py": "", "pkg/heavy.py": heavy + LARGE}
    for number in range(ways):
        files[f"pkg/light{number:02}.py"] = "A = 1\n"
        files[f"pkg/m{number:02}.py"] = f"import pkg.light{number:02}\nimport pkg.heavy\n"
    for name, text in more.items():
        folder = name.removesuffix("____init__")
        files[folder.replace("__", "/") + ("/__init__.py" if folder != name else ".py")] = text
    return files


def told(record: Record) -> object:
    findings = [(f.kind, f.what, f.phase, f.message, f.blame, f.chain, f.stack) for f in record.findings]
    return record.verdict, record.touch, findings, record.output, record.notes


def by_a_tree_alone(stage: Stage, checks: list[Check]) -> dict[str, Record]:
    """What a tree says, without a confirmation. It may leave out what it gives back to the tool."""
    planned = {check.id: check for check in checks}
    stage.start(1)
    server = stage.server(0)
    items = [[check.id, check.subject] for check in checks]
    wire.send(server.socket, {"tree": {**stage.request(checks[0]), "ahead": True}, "items": items})
    grown = {}
    while not (reply := wire.receive(server.socket) or {"done": True}).get("done"):
        if "events" in reply:
            grown[planned[reply["id"]].subject] = stage.record(planned[reply["id"]], reply, server.facts)
    return grown


def both(folder: Path, files: dict[str, str], names: list[str]) -> tuple[dict[str, Record], dict[str, Record]]:
    """What a tree says of the modules, and what forks of their own say."""
    write(folder, files)
    with Stage(torch=False) as stage:
        checks = [Check(name, machines.resolve("h100"), path=(str(folder),)) for name in names]
        return by_a_tree_alone(stage, checks), {record.subject: record for record in stage.run_all(checks)}


def modules(files: dict[str, str]) -> list[str]:
    return [name[:-3].replace("/", ".").removesuffix(".__init__") for name in files if name.startswith("pkg/")]


def test_it_is_made_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    files = package(COUNT.format(log=str(log)))
    write(tmp_path, files)
    log.touch()
    with Stage(torch=False) as stage:
        checks = [Check(name, machines.resolve("h100"), path=(str(tmp_path),)) for name in modules(files)]
        records = by_a_tree_alone(stage, checks)
    assert len(records) == len(checks) and {record.verdict for record in records.values()} == {"ok"}
    assert len(log.read_text()) == 2  # for all that come to it, and for itself


TRAPS = {
    "an event, with the way of each module to it": package(FAULT),
    "an event behind further imports": package("import pkg.deep\n", pkg__deep=FAULT),
    "an event behind modules between": package(
        FAULT,
        **{f"pkg__light{number:02}": "import pkg.between\n" for number in range(0, 24, 2)},
        **{f"pkg__light{number:02}": "import pkg.beside\n" for number in range(1, 24, 2)},
        pkg__between="import pkg.heavy\n",
        pkg__beside="A = 1\nimport pkg.between\n",
    ),
    "an event of an import that a package above leads to": package(
        FAULT,
        2,
        **{f"pkg__s{n}____init__": f"import pkg.light0{n % 2}\nimport pkg.heavy\n" for n in range(6)},
        **{f"pkg__s{n}__m{place}": "" for n in range(6) for place in range(3)},
    ),
    "a circle that some enter elsewhere": package(
        "import pkg.one\n",
        pkg__one="import pkg.two\nX = 1\n",
        pkg__two="import sys\nimport pkg.one\nif hasattr(sys.modules['pkg.one'], 'X'):\n    " + FAULT,
        pkg__light03="import pkg.two\n",
        pkg__m04="import pkg.two\nimport pkg.heavy\n",
    ),
    "a module of another project that some import before": package(
        "import vendor\n",
        vendor="import os; os.environ['VEN' + 'DOR'] = '1'\n",
        pkg__light03="import vendor\n",
        pkg__m04="import vendor\nimport pkg.heavy\n",
    ),
    "a function of another project that does it once": package(
        "import vendor\nvendor.ask()\n",
        vendor="import functools\nimport os\n\n\n@functools.cache\ndef ask():\n    os.environ['VENDOR'] = '1'\n",
        pkg__light03="import vendor\nvendor.ask()\n",
        pkg__light05="import vendor\n\n\ndef look():\n    return vendor.ask()\n\n\nlook()\n",
        pkg__light07="import vendor\n\n\ndef look():\n    return vendor.ask()\n",
        pkg__m04="import vendor\nVALUE = vendor.ask()\nimport pkg.heavy\n",
    ),
    "a function of the operating system's that is replaced": package(
        "import os\nos.getlogin = lambda: 'nobody'\n",
        pkg__light03="import os\nif os.getlogin.__name__ == '<lambda>':\n    " + FAULT,
    ),
    "a function that is replaced": package(
        "import subprocess\nsubprocess.list2cmdline = lambda: 'nothing'\n",
        pkg__light05="import subprocess\nif subprocess.list2cmdline.__name__ == '<lambda>':\n    " + FAULT,
    ),
    "a variable that is set": package(
        "import os\nos.environ['PKG_MODE'] = 'set'\n",
        pkg__light03="import os\nif os.environ.get('PKG_MODE') == 'set':\n    " + FAULT,
        pkg__m05="import os\nimport pkg.heavy\nassert os.environ['PKG_MODE'] == 'set'\n",
    ),
    "modules that fail before they come to it": package(
        FAULT,
        pkg__m03="import pkg.nothing\nimport pkg.heavy\n",
        pkg__light05="raise RuntimeError('no')\n",
        pkg__m07="import pkg.heavy\nimport pkg.nothing\n",
    ),
    "a module that ends the process before": package(FAULT, pkg__light05="import os\nos._exit(3)\n"),
    "one that fails by itself": package("raise RuntimeError('no')\n"),
    "a package above that fails behind it": package(
        FAULT,
        pkg__bad____init__="import pkg.heavy\nimport pkg.nothing\n",
        **{f"pkg__bad__m{number}": "import pkg.light01\nimport pkg.heavy\n" for number in range(4)},
    ),
    "a package that cannot be shared, with one in it that fails": package(
        FAULT,
        pkg__open____init__="F = open(__file__)\n",
        pkg__open__bad____init__="raise RuntimeError('no')\n",
        pkg__open__good____init__="",
        **{f"pkg__open__bad__m{number}": "" for number in range(4)},
        **{f"pkg__open__good__m{number}": "" for number in range(4)},
    ),
    "a module that fails with an error of its package": package(
        FAULT,
        pkg__bad____init__="F = open(__file__)\ntry:\n    import pkg.bad.m0\nexcept Exception as e:\n    err = e\n",
        pkg__bad__m0="import pkg.bad\nif hasattr(pkg.bad, 'err'):\n    raise pkg.bad.err\nraise RuntimeError('no')\n",
        **{f"pkg__bad__m{number}": "" for number in range(1, 6)},
    ),
    "a package that loads a module of its own": package(
        "import pkg.early\n",
        pkg__early="import pkg.light01\n" + FAULT,
    ),
}


@pytest.mark.parametrize("files", TRAPS.values(), ids=TRAPS)
def test_a_tree_says_what_forks_of_their_own_say(tmp_path: Path, files: dict[str, str]) -> None:
    trees, flat = both(tmp_path, files, modules(files))
    assert {name: told(record) for name, record in trees.items()} == {name: told(flat[name]) for name in trees}
    assert len(trees) >= len(flat) - 1


def test_modules_below_a_package_that_fails_are_told_alike(tmp_path: Path) -> None:
    """The package is executed once for them all, and each is told by its own name."""
    log = tmp_path / "log"
    bad = f"open({str(log)!r}, 'a').write('x')\nraise RuntimeError('no')\n"
    files = {"pkg/__init__.py": "", "pkg/bad/__init__.py": bad, "pkg/good.py": ""}
    files |= {f"pkg/bad/m{number:02}.py": "" for number in range(30)}
    trees, flat = both(tmp_path, files, modules(files))
    assert {name: told(record) for name, record in trees.items()} == {name: told(flat[name]) for name in flat}
    assert log.read_text().count("x") <= len(modules(files)) + 3  # the flat ones, the tree's attempt, one, and itself
