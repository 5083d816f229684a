"""A fast scan says of every module what a fork of its own says: verdict, findings with their lines, and touch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from trees import by_a_tree_alone, told

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Record, Stage, fast
from masquerade.stage.fast import CHUNK, WORTH, Agreement, Worker

SHARED = {
    "fastpkg/__init__.py": "",
    "fastpkg/base.py": "import json\nREGISTRY = {}\n\n\ndef register(name):\n    REGISTRY[name] = 1\n",
    "fastpkg/helper.py": "from fastpkg import base\nbase.EXTRA = 5\n",
    # Touches a device, and others import it.
    "fastpkg/dirty.py": "import torch\nfrom fastpkg import base\nCAP = torch.cuda.is_available()\n",
    "fastpkg/on_dirty.py": "from fastpkg import dirty, helper\n",
    # A probe that is cached after the first call, asked by two.
    "fastpkg/probe.py": (
        "import functools\nimport torch\n\n\n@functools.lru_cache\ndef has():\n    return torch.cuda.is_available()\n"
    ),
    "fastpkg/asks_one.py": "from fastpkg.probe import has\nA = has()\n",
    "fastpkg/asks_two.py": "from fastpkg.probe import has\nB = has()\n",
    "fastpkg/asks_both.py": "from fastpkg import asks_one\nfrom fastpkg.probe import has\nC = has()\n",
    # A cycle that closes only when it is entered at one end.
    "fastpkg/round_a.py": "from fastpkg import round_b\nNAME = 'a'\n",
    "fastpkg/round_b.py": "from fastpkg.round_a import NAME\n",
    "fastpkg/uses_round.py": "import fastpkg.round_b\n",
    "fastpkg/uses_round_2.py": """\
try:
    import fastpkg.round_a
except ImportError:
    pass
import fastpkg.helper
""",
    # Only there because another one imported it.
    "fastpkg/sub/__init__.py": "",
    "fastpkg/sub/leaf.py": "VALUE = 3\n",
    "fastpkg/reaches.py": "import fastpkg.sub\nX = fastpkg.sub.leaf.VALUE\n",
    "fastpkg/imports_leaf.py": "import fastpkg.sub.leaf\n",
    # Registered once in a process.
    "fastpkg/ops.py": "import torch\ntorch.library.define('fastpkg::twice', '(Tensor x) -> Tensor')\n",
    "fastpkg/uses_ops.py": "import fastpkg.ops\n",
    "fastpkg/uses_ops_2.py": "from fastpkg import ops, uses_ops\n",
    # Looks at what is loaded.
    "fastpkg/looks.py": "import sys\nassert 'fastpkg.helper' not in sys.modules, 'helper is loaded'\n",
    "fastpkg/looks_2.py": "import sys\nimport fastpkg.helper\nassert 'fastpkg.base' in sys.modules\n",
    "fastpkg/looks_3.py": "from fastpkg import base\nassert not hasattr(base, 'EXTRA'), 'EXTRA is there'\n",
    # An optional module that fails, an environment variable, a thread, an exit function, a lazy attribute.
    "fastpkg/optional.py": "try:\n    import fastpkg.broken\nexcept ImportError:\n    pass\n",
    "fastpkg/broken.py": "import fastpkg.base\nimport no_such_module_anywhere\n",
    "fastpkg/sets.py": "import os\nos.environ['FASTPKG'] = '1'\n",
    "fastpkg/on_sets.py": "import fastpkg.sets\n",
    "fastpkg/thread.py": "import threading\nt = threading.Thread(target=int)\nt.start()\nt.join()\n",
    "fastpkg/at_exit.py": "import atexit, torch\natexit.register(lambda: torch.cuda.is_available())\n",
    "fastpkg/on_exit.py": "import fastpkg.at_exit\n",
    "fastpkg/lazy/__init__.py": (
        "import importlib\n\n\ndef __getattr__(name):\n    if name == 'heavy':\n"
        "        value = importlib.import_module('fastpkg.lazy.heavy')\n        globals()[name] = value\n"
        "        return value\n    raise AttributeError(name)\n"
    ),
    "fastpkg/lazy/heavy.py": "from fastpkg import dirty\n",
    "fastpkg/lazy_user.py": "from fastpkg import lazy\nH = lazy.heavy\n",
    "fastpkg/lazy_user_2.py": "from fastpkg.lazy import heavy\n",
    "fastpkg/patches.py": "from fastpkg import base\nbase.register = None\n",
    "fastpkg/after_patches.py": "import fastpkg.patches\nfrom fastpkg.base import register\nassert register is None\n",
    "fastpkg/unpatched.py": "from fastpkg.base import register\nassert register is not None\n",
    # Changes of things in place, which no import of the changed module undoes.
    "fastpkg/fills.py": "from fastpkg.base import REGISTRY\nREGISTRY['k'] = 1\n",
    "fastpkg/on_fills.py": "import fastpkg.fills\nfrom fastpkg.base import REGISTRY\nassert REGISTRY\n",
    "fastpkg/unfilled.py": "from fastpkg.base import REGISTRY\nassert not REGISTRY, 'somebody filled it'\n",
    "fastpkg/flags.py": "import builtins, json, sys\nsys.fastflag = builtins.fastflag = json.fastflag = 1\n",
    "fastpkg/on_flags.py": "import fastpkg.flags\nassert fastflag\n",
    "fastpkg/unflagged.py": "import json, sys\nassert not hasattr(sys, 'fastflag') and not hasattr(json, 'fastflag')\n",
    "fastpkg/dom.py": "import xml.dom.minidom\n",
    "fastpkg/on_dom.py": "import fastpkg.dom\n",
    "fastpkg/no_dom.py": "import xml\nX = xml.dom.minidom\n",
    # One beginning on different lines, and what it does and prints.
    "fastpkg/on_dirty_2.py": "import torch\nimport fastpkg.dirty\n",
    "fastpkg/on_dirty_3.py": '"""Words.\n\nif they are many.\n"""\nimport json\n\nimport fastpkg.dirty\n',
    "fastpkg/prints.py": "print('words')\n",
    "fastpkg/on_prints.py": "import fastpkg.prints\nprint('more')\n",
    "fastpkg/on_prints_2.py": "import fastpkg.prints\n",
    # A package that opened the device before its modules go on.
    "fastpkg/opened/__init__.py": "import torch\ntry:\n    torch.cuda.current_device()\nexcept Exception:\n    pass\n",
    "fastpkg/opened/one.py": "import fastpkg.helper, torch\nX = torch.version.cuda and torch.cuda.get_device_name(0)\n",
    "fastpkg/opened/two.py": "import fastpkg.helper, torch\nX = torch.version.cuda and torch.empty(2, device='cuda')\n",
    # A finder of its own, that answers for one module otherwise than its file does.
    "fastpkg/found/__init__.py": (
        "import importlib.util, sys\n\n\nclass Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'fastpkg.found.odd':\n"
        "            from fastpkg.found import loader\n"
        "            return importlib.util.spec_from_loader(name, loader.Loader())\n\n\n"
        "sys.meta_path.insert(0, Finder)\n"
    ),
    "fastpkg/found/loader.py": (
        "class Loader:\n    def create_module(self, spec):\n        return None\n\n"
        "    def exec_module(self, module):\n        import sys\n"
        "        module.CLEAN = 'fastpkg.helper' not in sys.modules\n"
        "        assert module.CLEAN\n"
    ),
    "fastpkg/found/odd.py": "import fastpkg.helper\nimport fastpkg.dirty\n",
    "fastpkg/found/even.py": "import fastpkg.helper\n",
    "fastpkg/found/even_2.py": "import fastpkg.helper\nimport fastpkg.dirty\n",
    "fastpkg/found/on_odd.py": "import fastpkg.found.odd\n",
    # A beginning that cannot be shared.
    "fastpkg/forks.py": "import os\nos.register_at_fork(after_in_child=lambda: os.environ.update(FORKED='1'))\n",
    "fastpkg/on_forks.py": "import fastpkg.forks\nimport os\nassert 'FORKED' not in os.environ\n",
    "fastpkg/on_forks_2.py": "import fastpkg.forks\n",
    "fastpkg/stays.py": (
        "import threading, time\nimport torch\n\n\ndef work():\n    time.sleep(0.3)\n"
        "    torch.cuda.is_available()\n\n\nthreading.Thread(target=work).start()\n"
    ),
    "fastpkg/on_stays.py": "import fastpkg.stays\n",
    "fastpkg/on_stays_2.py": "import fastpkg.stays\n",
    "fastpkg/opens.py": "log = open('/dev/null', 'w')\n",
    "fastpkg/on_opens.py": "from fastpkg.opens import log\nlog.write('x')\nlog.flush()\n",
    "fastpkg/on_opens_2.py": "from fastpkg.opens import log\nlog.write('x')\nlog.flush()\n",
    "fastpkg/quits.py": "raise SystemExit(3)\n",
    "fastpkg/on_quits.py": "import fastpkg.quits\n",
    "fastpkg/on_quits_2.py": "import fastpkg.quits\n",
    "fastpkg/kills.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(9)\n",
    # A beginning that leads back to the module.
    "fastpkg/back.py": "import fastpkg.forth\nNAME = 1\n",
    "fastpkg/back_too.py": "import fastpkg.forth\n",
    "fastpkg/forth.py": (
        "import os\nfrom fastpkg import back\nif hasattr(back, 'NAME'):\n    os.environ['BACK'] = '1'\n"
    ),
    "fastpkg/vendor_user.py": "import json, vendor_fast\n",
    "vendor_fast.py": "X = 1\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fast"), SHARED)


def checks(stage: Stage, root: Path, worlds: tuple[str, ...], package: str = "fastpkg") -> list[Check]:
    modules = stage.discover(package, path=[str(root)]).modules
    owners = {"rocm": ("vendor_fast",)}
    return [
        Check(module, machines.resolve(world), owners=owners, path=(str(root),))
        for world in worlds
        for module in modules
    ]


def test_fast_and_flat_agree_on_everything(root: Path) -> None:
    with Stage(jobs=2) as stage:
        planned = checks(stage, root, ("cuda", "cpu"))
        assert len(planned) >= 2 * WORTH
        quick = {record.id: record for record in stage.scan(planned)}
        flat = {record.id: record for record in stage.run_all(planned)}
        assert len(quick) == len(planned)
        assert {name: told(record) for name, record in quick.items()} == {name: told(r) for name, r in flat.items()}
        assert stage.agreement.confirmed >= 2 and not stage.agreement.differed


def test_a_tree_says_by_itself_what_flat_forks_say(root: Path) -> None:
    """Without confirmation: it may be wrong about nothing, and answers all but those that end it."""
    with Stage() as stage:
        planned = [check for check in checks(stage, root, ("cuda",)) if "kills" not in check.subject]
        grown = by_a_tree_alone(stage, planned)
        flat = {record.id: record for record in stage.run_all(planned)}
    assert {name: told(record) for name, record in grown.items()} == {name: told(r) for name, r in flat.items()}


def test_a_beginning_is_made_once(tmp_path: Path) -> None:
    """What modules share is executed once a machine, and twice more for the confirmations and once for itself."""
    files = {f"many/m{n}.py": f"import many.slow\nN = {n}\n" for n in range(2 * WORTH)}
    slow = f"open({str(tmp_path / 'log')!r}, 'a').write('x')\n"
    write(tmp_path, {"many/__init__.py": "", "many/slow.py": slow, **files})
    with Stage() as stage:
        records = list(stage.scan(checks(stage, tmp_path, ("cpu",), "many")))
    assert {record.verdict for record in records} == {"ok"} and len(records) == 2 * WORTH + 2
    assert len((tmp_path / "log").read_text()) <= 4


def side_by_side(package: str, shared: str, count: int = 8) -> dict[str, str]:
    """Packages side by side, each with three modules that import one large thing."""
    files = {"side/__init__.py": "", "side/large.py": shared}
    for number in range(count):
        files[f"side/p{number}/__init__.py"] = package
        for name in "abc":
            files[f"side/p{number}/{name}.py"] = f"import side.large\nNAME = '{name}'\n"
    return files


@pytest.mark.parametrize(
    ("package", "shared", "most"),
    [
        ("KIND = 1\n", "", 3),  # once for all, once for itself, once to confirm
        ("from side import state\nstate.SEEN.append(1)\n", "from side import state\nassert state.SEEN == [1]\n", 99),
        ("from side import state\nstate.LAST = __name__\n", "from side import state\nassert state.LAST\n", 99),
        ("import os\nos.environ['P'] = '1'\n", "import os\nassert 'P' in os.environ\n", 99),
        ("import sys\nKIND = 'side.large' in sys.modules\n", "", 99),
    ],
    ids=["to itself", "fills a list", "sets a name", "sets a variable", "looks around"],
)
def test_packages_side_by_side(tmp_path: Path, package: str, shared: str, most: int) -> None:
    log = f"open({str(tmp_path / 'log')!r}, 'a').write('x')\n"
    files = {**side_by_side(package, shared + log), "side/state.py": "SEEN = []\nLAST = ''\n"}
    write(tmp_path, files)
    with Stage() as stage:
        planned = checks(stage, tmp_path, ("cpu",), "side")
        quick = {record.id: record for record in stage.scan(planned)}
        assert len((tmp_path / "log").read_text()) <= most
        flat = {record.id: record for record in stage.run_all(planned)}
    assert {name: told(record) for name, record in quick.items()} == {name: told(r) for name, r in flat.items()}
    assert stage.agreement.differed == []


def test_records_with_known_findings_are_made_again_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding that was confirmed for one module is believed for others, but for one in so many."""
    files = {f"many/m{n:02}.py": "import many.fault\n" for n in range(2 * WORTH)}
    write(tmp_path, {"many/__init__.py": "", "many/fault.py": "import os\nos.environ['MANY'] = '1'\n", **files})
    monkeypatch.setattr(fast, "KNOWN_ONE_IN", 4)
    with Stage(torch=False) as stage:
        assert len(list(stage.scan(checks(stage, tmp_path, ("cpu",), "many")))) == 2 * WORTH + 2
        assert 4 <= stage.agreement.confirmed <= WORTH and not stage.agreement.differed


def test_where_a_first_trace_is_not_believed_no_second_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[bool] = []
    replies: list[dict[str, object]] = [{"untrusted": "why"}, {"digests": {"one": "1"}}]

    def traced(self: Worker, left: object, checks: object, digests: bool, take: Callable[[object], bool]) -> bool:
        orders.append(digests)
        return take(replies[0] if digests else {"done": True})

    monkeypatch.setattr(Worker, "_traced", traced)
    with Stage(torch=False) as stage:
        worker = Worker(stage, (0, 1), Agreement(), lambda record: None)
        assert worker._trace({}) and orders == [True]
        del replies[0]
        assert worker._trace({}) and orders == [True, True, False]


def test_few_modules_are_not_worth_a_tree(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage() as stage:
        planned = checks(stage, root, ("cpu",))[: WORTH - 1]
        monkeypatch.setattr(fast, "run", lambda *a: pytest.fail("a tree was grown"))
        assert len(list(stage.scan(planned))) == len(planned)


def test_a_clean_record_that_a_fork_of_its_own_denies_is_not_given(root: Path, tmp_path: Path) -> None:
    """The confirmation is real: a tree that calls everything clean is found out."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with Stage() as stage:
        planned = [check for check in checks(stage, copy, ("cuda",)) if "dirty" in check.subject][:1]
        planned += [Check(f"fastpkg.clean_{n}", planned[0].machine, path=(str(copy),)) for n in range(WORTH)]
        for n in range(WORTH):
            (copy / f"fastpkg/clean_{n}.py").write_text("import torch\ntorch.cuda.is_available()\n")
        record_of, flat_of, flat = stage.record, stage.flat, []

        def blind(check: Check, reply: dict[str, object], facts: dict[str, object]) -> Record:
            return record_of(check, reply if flat else {**reply, "events": []}, facts)

        def seeing(check: Check, number: int = 0) -> Record:
            flat.append(check)
            try:
                return flat_of(check, number)
            finally:
                flat.pop()

        stage.record, stage.flat = blind, seeing  # type: ignore[method-assign, assignment]
        verdicts = [record.verdict for record in stage.scan(planned)]
    assert len(planned) <= CHUNK
    assert verdicts == ["fork-poison"] * len(planned)
    assert stage.agreement.differed
