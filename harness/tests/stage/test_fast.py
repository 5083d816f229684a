"""A fast scan says of every module what a fork of its own says: verdict, findings with their lines, and touch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Record, Stage
from masquerade.stage.fast import CHUNK, WORTH, keys

SHARED = {
    "fastpkg/__init__.py": "",
    # Clean and shared: kept.
    "fastpkg/base.py": "import json\nREGISTRY = {}\n\n\ndef register(name):\n    REGISTRY[name] = 1\n",
    "fastpkg/helper.py": "from fastpkg import base\nbase.EXTRA = 5\n",
    # Touches a device, and others import it: executed in each check.
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
    "fastpkg/vendor_user.py": "import json, vendor_fast\n",
    "vendor_fast.py": "X = 1\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fast"), SHARED)


def checks(stage: Stage, root: Path, worlds: tuple[str, ...]) -> list[Check]:
    modules = stage.discover("fastpkg", path=[str(root)]).modules
    owners = {"rocm": ("vendor_fast",)}
    return [
        Check(module, machines.resolve(world), owners=owners, path=(str(root),))
        for world in worlds
        for module in modules
    ]


def told(records: dict[str, Record]) -> dict[str, tuple[str, list[tuple[str, str, str]], str]]:
    return {name: (r.verdict, sorted(keys(r)), r.touch) for name, r in records.items()}


def test_fast_and_flat_agree_on_everything(root: Path) -> None:
    with Stage(jobs=2) as stage:
        planned = checks(stage, root, ("cuda", "cpu"))
        assert len(planned) >= 2 * WORTH
        fast = {record.id: record for record in stage.scan(planned)}
        flat = {record.id: record for record in stage.run_all(planned)}
        assert len(fast) == len(planned)
        assert told(fast) == told(flat)
        assert stage.agreement.confirmed >= 2 and not stage.agreement.differed


def test_few_modules_are_not_worth_a_warm_server(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage() as stage:
        planned = checks(stage, root, ("cpu",))[: WORTH - 1]
        monkeypatch.setattr(stage, "warm_server", lambda *a: pytest.fail("a warm server was started"))
        assert len(list(stage.scan(planned))) == len(planned)


def test_a_clean_record_that_a_fork_of_its_own_denies_is_not_given(root: Path, tmp_path: Path) -> None:
    """The confirmation is real: a warm server that calls everything clean is found out."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with Stage() as stage:
        planned = [check for check in checks(stage, copy, ("cuda",)) if "dirty" in check.subject][:1]
        planned += [Check(f"fastpkg.clean_{n}", planned[0].machine, path=(str(copy),)) for n in range(WORTH)]
        for n in range(WORTH):
            (copy / f"fastpkg/clean_{n}.py").write_text("import torch\ntorch.cuda.is_available()\n")
        record_of = stage.record

        def blind(check: Check, reply: dict[str, object], facts: dict[str, object]) -> Record:
            if "executed" in str(reply.get("closing")):
                reply = {**reply, "events": []}
            return record_of(check, reply, facts)

        stage.record = blind  # type: ignore[method-assign, assignment]
        verdicts = [record.verdict for record in stage.scan(planned)]
    assert len(planned) <= CHUNK
    assert verdicts == ["fork-poison"] * len(planned)
    assert stage.agreement.differed
