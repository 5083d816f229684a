"""Packages of platforms that are not there: a report names who imports them, for that was not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage
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
    assert unseen([check, *others, replace(check, machine=machines.resolve("h100"))], [], (), one.discover) == [
        AITER, FLASHINFER,
    ]  # fmt: skip


def test_what_is_installed_is_not(one: Stage, check: Check) -> None:
    write(Path(check.path[0]), {"aiter/__init__.py": ""})
    assert unseen([check], [], (), one.discover) == [FLASHINFER]


@pytest.mark.parametrize(
    "changes",
    [
        {"present": ("aiter",)},
        {"absent": ("aiter",)},
        {"stand_ins": {"aiter": ""}},
        {"machine": machines.resolve("mi300x+aiter")},
        {"machine": machines.resolve("b580-aiter")},
        {"owners": {"any": ("aiter",), "cuda": ("flashinfer",)}},
    ],
)
def test_what_the_user_spoke_of_is_not(one: Stage, check: Check, changes: dict) -> None:
    others = [] if "owners" in changes else [check]
    assert unseen([*others, replace(check, **changes)], [], (), one.discover) == [FLASHINFER]


def test_the_machine_here_has_what_it_has(one: Stage, check: Check) -> None:
    assert unseen([replace(check, machine=machines.resolve("here"))], [], (), one.discover) == []


def test_a_module_is_found_in_the_servers_path_and_one_without_a_source_is_left_out(one: Stage, check: Check) -> None:
    (folder,) = check.path
    assert unseen([replace(check, path=())], [], (folder,), one.discover) == [AITER, FLASHINFER]
    (Path(folder) / "pkg/ops.py").write_bytes(b"\xff import aiter\nimport aiter (")
    assert unseen([check], [], (), one.discover) == []


def test_a_part_of_a_package_and_management_libraries_are_left_out(one: Stage, check: Check) -> None:
    write(Path(check.path[0]), {"pkg/ops.py": "import pynvml, cuda.bindings, amdsmi\n"})
    assert unseen([check], [], (), one.discover) == []


def test_who_failed_for_it_is_left_out(one: Stage, check: Check) -> None:
    failed = Finding("import-error", "ModuleNotFoundError", "import", None, missing="aiter")
    record = Record("i", "pkg.ops", "import", "b580", "xpu", (failed,))
    assert unseen([check], [record], (), one.discover) == [FLASHINFER]


def test_the_first_that_really_do_are_named(one: Stage, check: Check) -> None:
    names = [f"pkg.m{number}" for number in range(6)]
    files = {f"{name.replace('.', '/')}.py": "import json, aiter\n" for name in names}
    files["pkg/m1.py"] = '"""\nimport aiter\n"""\n\ndef later():\n    import aiter\n'
    write(Path(check.path[0]), files)
    found = unseen([replace(check, subject=name) for name in names], [], (), one.discover)
    assert list(told([*found, FLASHINFER])) == [
        "not installed here, and what it does not seen: aiter (rocm), imported by pkg.m0:1, pkg.m2:1 and more; "
        "flashinfer (cuda), imported by pkg.ops:15 (--present aiter,flashinfer shows it)"
    ]
    assert list(told([])) == []
