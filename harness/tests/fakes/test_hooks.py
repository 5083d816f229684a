"""Hooks in the import system: callbacks after execution, hidden modules, and all else going on as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package `pkg` and its module `pkg.mod`, which counts how often it was executed."""
    folder = tmp_path / "site"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("'''Doc.'''\n")
    (folder / "pkg" / "mod.py").write_text(
        "import builtins\nbuiltins.ran = getattr(builtins, 'ran', 0) + 1\nVALUE = 7\n"
    )
    (folder / "pkg" / "data.txt").write_text("data")
    (folder / "other.py").write_text("X = 1\n")
    return folder


REGISTER = """\
import builtins
from masquerade.fakes import hooks
called = []
hooks.on_import("pkg.mod", lambda module: called.append(module.VALUE))
"""


def test_a_callback_runs_right_after_execution_and_again_after_a_reload(child: Any, package: Path) -> None:
    found = child(
        REGISTER
        + """
import importlib, importlib.util
spec = importlib.util.find_spec("pkg.mod")
answer["searched"] = [len(called), getattr(builtins, "ran", 0)]
import pkg.mod
answer["imported"] = list(called)
importlib.reload(pkg.mod)
answer["reloaded"] = list(called)
answer["equal"] = spec == pkg.mod.__spec__
""",
        path=[package],
    )
    assert found == {"searched": [0, 0], "imported": [7], "reloaded": [7, 7], "equal": True}


def test_a_loaded_module_is_called_back_at_once(child: Any, package: Path) -> None:
    found = child("import pkg.mod\n" + REGISTER + "answer['called'] = called", path=[package])
    assert found == {"called": [7]}


def test_a_lazy_loader_executes_and_calls_back_when_it_is_touched(child: Any, package: Path) -> None:
    found = child(
        REGISTER
        + """
import importlib.util
spec = importlib.util.find_spec("pkg.mod")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = importlib.util.module_from_spec(spec)
sys.modules["pkg.mod"] = module
spec.loader.exec_module(module)
answer["untouched"] = list(called)
answer["value"] = module.VALUE
answer["touched"] = list(called)
""",
        path=[package],
    )
    assert found == {"untouched": [], "value": 7, "touched": [7]}


def test_a_followed_loader_keeps_all_that_it_can_do(child: Any, package: Path) -> None:
    found = child(
        REGISTER
        + """
import copy, importlib.util, importlib.machinery, importlib.resources, pickle, pkgutil
hooks.on_import("pkg", lambda module: None)
spec = importlib.util.find_spec("pkg.mod")
loader = spec.loader
answer["type"] = type(loader) is importlib.machinery.SourceFileLoader
answer["source"] = loader.get_source("pkg.mod").splitlines()[-1]
answer["code"] = loader.get_code("pkg.mod").co_name
answer["package"] = loader.is_package("pkg.mod")
for name, other in (("pickled", pickle.loads(pickle.dumps(loader))), ("copied", copy.deepcopy(loader))):
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pkg.mod", other))
    other.exec_module(module)
    answer[name] = module.VALUE
answer["modules"] = [info.name for info in pkgutil.iter_modules(__import__("pkg").__path__)]
answer["data"] = pkgutil.get_data("pkg", "data.txt").decode()
answer["resource"] = importlib.resources.files("pkg").joinpath("data.txt").read_text()
answer["repr"] = "SourceFileLoader" in repr(spec)
""",
        path=[package],
    )
    assert found == {
        "type": True,
        "source": "VALUE = 7",
        "code": "<module>",
        "package": False,
        "pickled": 7,
        "copied": 7,
        "modules": ["mod"],
        "data": "data",
        "resource": "data",
        "repr": True,
    }


def test_a_module_that_puts_another_object_in_its_place_is_met_as_that_object(child: Any, tmp_path: Path) -> None:
    (tmp_path / "swapped.py").write_text("import sys\nclass Real: VALUE = 5\nsys.modules[__name__] = Real\n")
    found = child(
        """
from masquerade.fakes import hooks
called = []
hooks.on_import("swapped", lambda module: called.append(module.VALUE))
import swapped
answer["called"] = called
""",
        path=[tmp_path],
    )
    assert found == {"called": [5]}


HIDE = """\
from masquerade.fakes import hooks
hooks.hide(["pkg", "other"])
import importlib.util
answer["spec"] = importlib.util.find_spec("pkg") is None
answer["import"] = error(__import__, "pkg")
"""


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "import importlib.machinery as m\nsys.meta_path = [m.BuiltinImporter, m.FrozenImporter, m.PathFinder]\n",
        "import pkg, pkg.mod\n",
    ],
    ids=["plain", "finders-rebuilt", "already-loaded"],
)
def test_a_hidden_package_is_not_there(child: Any, package: Path, subject: str) -> None:
    found = child(subject + HIDE, path=[package])
    assert found == {"spec": True, "import": "ModuleNotFoundError: No module named 'pkg'"}


def test_finders_rebuilt_after_the_disguise_still_meet_it(child: Any, package: Path) -> None:
    found = child(
        HIDE
        + REGISTER.replace("pkg.mod", "colorsys").replace("module.VALUE", "1")
        + """
import importlib.machinery as m
sys.meta_path = [m.BuiltinImporter, m.FrozenImporter, m.PathFinder]
answer["again"] = error(__import__, "pkg")
answer["asked"] = m.PathFinder.find_spec("pkg") is None
import colorsys
answer["called"] = called
""",
        path=[package],
    )
    assert found["again"] == "ModuleNotFoundError: No module named 'pkg'"
    assert found["asked"] is True
    assert found["called"] == [1]


def test_what_an_editable_finder_maps_is_followed_and_hidden_too(child: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("VALUE = 3\n")
    found = child(
        f"""
import importlib.util
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in ("mapped", "unwanted"):
            return importlib.util.spec_from_file_location(name, {str(tmp_path / "elsewhere.py")!r})
sys.meta_path.append(Finder)
from masquerade.fakes import hooks
called = []
hooks.on_import("mapped", lambda module: called.append(module.VALUE))
hooks.hide(["unwanted"])
import mapped
answer["called"] = called
answer["hidden"] = error(__import__, "unwanted")
"""
    )
    assert found == {"called": [3], "hidden": "ModuleNotFoundError: No module named 'unwanted'"}


def test_a_subjects_own_stub_under_a_hidden_name_stays(child: Any) -> None:
    found = child(
        """
from masquerade.fakes import hooks
hooks.hide(["pkg"])
sys.modules["pkg"] = stub = type(sys)("pkg")
import pkg
answer["same"] = pkg is stub
"""
    )
    assert found == {"same": True}


def test_an_error_in_a_followed_module_shows_no_frame_of_ours(child: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('own')\n")
    found = child(
        """
import traceback
from masquerade.fakes import hooks
hooks.on_import("broken", print)
try:
    import broken
except ValueError as caught:
    answer["files"] = [os.path.basename(frame.filename) for frame in traceback.extract_tb(caught.__traceback__)]
""",
        path=[tmp_path],
    )
    assert found == {"files": ["child_script.py", "broken.py"]}
