"""Packages of platforms that are not there: a report names who imports them, for that was not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Discovery, Stage, SubjectError
from masquerade.stage.record import Finding, Record
from masquerade.stage.unseen import Place, Unseen, told, unseen

GUARDED = """\
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import deep_gemm
else:
    import json
try:
    import aiter.ops, aiter
except ImportError:
    aiter = None
class Ops:
    if os.environ.get("X"):
        with open(os.devnull):
            from flashinfer.gemm import mm


def later():
    import deep_ep
"""


@pytest.fixture
def check(tmp_path: Path) -> Check:
    files = {"pkg/__init__.py": "", "pkg/ops.py": GUARDED, "pkg/rel.py": "from .aiter import x\n# import aiter\n"}
    return Check("pkg.ops", machines.resolve("b580"), path=(str(write(tmp_path, files)),))


AITER = Unseen("aiter", "rocm", (Place("pkg.ops", 9),))
FLASHINFER = Unseen("flashinfer", "cuda", (Place("pkg.ops", 15),))


def test_what_a_module_imports_as_it_is_imported_is_named(one: Stage, check: Check) -> None:
    others = [replace(check, subject=name) for name in ("pkg", "pkg.rel", "pkg.ops:later", "pkg.nothing")]
    assert unseen([check, *others, replace(check, machine=machines.resolve("h100"))], [], one.discover) == [
        AITER, FLASHINFER,
    ]  # fmt: skip


def test_what_is_installed_is_not(one: Stage, check: Check) -> None:
    write(Path(check.path[0]), {"aiter/__init__.py": ""})
    assert unseen([check], [], one.discover) == [FLASHINFER]


@pytest.mark.parametrize(
    "changes",
    [
        {"present": ("aiter",)},
        {"absent": ("aiter",)},
        {"stand_ins": {"aiter": ""}},
        {"machine": machines.resolve("mi300x+aiter")},
        {"machine": machines.resolve("b580-aiter")},
        {"machine": machines.resolve("mi300x-aiter")},
        {"owners": {"any": ("aiter",), "cuda": ("flashinfer",)}},
    ],
)
def test_what_the_user_spoke_of_is_not(one: Stage, check: Check, changes: dict) -> None:
    others = [] if "owners" in changes else [check]
    assert unseen([*others, replace(check, **changes)], [], one.discover) == [FLASHINFER]


def test_the_machine_here_has_what_it_has(one: Stage, check: Check) -> None:
    assert unseen([replace(check, machine=machines.resolve("here"))], [], one.discover) == []


def test_an_installed_subject_is_read_too(check: Check) -> None:
    (folder,) = check.path

    def discover(name: str, path: tuple[str, ...]) -> Discovery:
        if name != "pkg":
            raise SubjectError(name)
        return Discovery(folder, ("pkg",))

    assert unseen([replace(check, path=())], [], discover) == [AITER, FLASHINFER]


@pytest.mark.parametrize("source", [b"\xff import aiter\nimport aiter (", b"\n" * 9 + b"import aiter\0", b""])
def test_a_source_that_is_none_says_nothing(one: Stage, check: Check, source: bytes) -> None:
    (folder,) = check.path
    (Path(folder) / "pkg/ops.py").write_bytes(source)
    assert unseen([check], [], one.discover) == []


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("import aiter, flashinfer\n", {"aiter": 1, "flashinfer": 1}),
        ("try: import aiter\nexcept ImportError: pass\n", {"aiter": 1}),
        ("import os; import aiter.ops as x\n", {"aiter": 1}),
        ("import typing\nif not typing.TYPE_CHECKING:\n    import aiter\n", {"aiter": 3}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import aiter\n", {}),
        ("if 0:\n    pass\n" + "".join(f"elif {n}:\n    import aiter\n" for n in range(1, 900)), {"aiter": 4}),
        ("from ghost import part\nfrom ghost.part import driver\n", {"ghost.part": 1}),
        ("import pynvml, amdsmi, numpy, pkg.aiter\nfrom . import aiter\nfrom pkg import aiter\n", {}),
        ("if __name__ == '__main__':\n    import aiter\nelif False:\n    import aiter\n", {}),
        ("import typing\nif typing.TYPE_CHECKING and True:\n    import aiter\nelse:\n    import hip\n", {"hip": 5}),
        ("\ufeffimport aiter\n", {"aiter": 1}),
        ("if " + " + ".join("x" * 900) + ":\n    import aiter\n", {"aiter": 2}),
        ("match 1:\n    case 1:\n        import aiter\n", {"aiter": 3}),
    ],
)
def test_statements(one: Stage, check: Check, source: str, places: dict[str, int]) -> None:
    write(Path(check.path[0]), {"pkg/ops.py": source})
    check = replace(check, owners={**check.owners, "xpu": ("ghost.part",)})
    assert {each.package: each.places[0].line for each in unseen([check], [], one.discover)} == places


def test_who_failed_for_it_is_left_out(one: Stage, check: Check) -> None:
    failed = Finding("import-error", "ModuleNotFoundError", "import", None, missing="aiter")
    record = Record("i", "pkg.ops", "import", "b580", "xpu", (failed,))
    assert unseen([check], [record], one.discover) == [FLASHINFER]
    called = replace(check, subject="pkg.ops:later")
    assert unseen([called], [replace(record, subject="pkg.ops:later")], one.discover) == [FLASHINFER]


def test_the_first_that_really_do_are_named(one: Stage, check: Check) -> None:
    names = [f"pkg.m{number}" for number in range(6)]
    files = {f"{name.replace('.', '/')}.py": "import json, aiter\n" for name in names}
    files["pkg/m1.py"] = '"""\nimport aiter\n"""\n\ndef later():\n    import aiter\n'
    write(Path(check.path[0]), files)
    found = unseen([replace(check, subject=name) for name in names], [], one.discover)
    assert list(told([*found, FLASHINFER])) == [
        "not installed, so that what it does there was not seen (--present aiter,flashinfer shows it): "
        "aiter (rocm), imported by pkg.m0:1, pkg.m2:1 and more; flashinfer (cuda), imported by pkg.ops:15"
    ]
    assert list(told([])) == []
