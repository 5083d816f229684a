"""Whose a module is: the longest entry among all owners tells, whatever platform the machine is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import told

from conftest import write
from masquerade.stage import Stage
from masquerade.watch.imports import handlers
from masquerade.watch.recorder import Recorder

Owners = Mapping[str, Sequence[str]]

PART: Owners = {"rocm": ["vendor"], "cuda": ["vendor.part"]}
DISOWNED: Owners = {"rocm": ["vendor"], "any": ["vendor.stubs"]}
INNER: Owners = {"any": ["vendor"], "rocm": ["vendor.hip"]}
SHARED: Owners = {"rocm": ["pkg.gpu"], "cuda": ["pkg.gpu"]}


def noted(owners: Owners, platform: str, module: str) -> list[tuple[str, str]]:
    """(entry, owner) of the event that loading `module` gives; [] for none."""
    events: list[tuple[str, str]] = []

    def note(kind: str, what: str, **more: Any) -> None:
        events.append((what, more["owner"]))

    listen = handlers(Recorder(note, list, {}), owners, platform)
    if listen:
        listen["import"]((module, f"/nowhere/{module.replace('.', '/')}.so"))
    return events


@pytest.mark.parametrize(
    "owners, platform, module, expected",
    [
        (PART, "cuda", "vendor.part", []),
        (PART, "cuda", "vendor.part.deep", []),
        (PART, "cuda", "vendor.partly", [("vendor", "rocm")]),
        (PART, "rocm", "vendor.part", [("vendor.part", "cuda")]),
        (PART, "xpu", "vendor.part", [("vendor.part", "cuda")]),
        (DISOWNED, "cuda", "vendor.stubs", []),
        (DISOWNED, "cpu", "vendor.stubs.deep", []),
        (DISOWNED, "cuda", "vendor", [("vendor", "rocm")]),
        (INNER, "cuda", "vendor.hip", [("vendor.hip", "rocm")]),
        (INNER, "cuda", "vendor.common", []),
        (SHARED, "cuda", "pkg.gpu", []),
        (SHARED, "rocm", "pkg.gpu", []),
        (SHARED, "cpu", "pkg.gpu", [("pkg.gpu", "rocm and cuda")]),
    ],
)
def test_the_longest_entry_of_all_owners_tells(
    owners: Owners, platform: str, module: str, expected: list[tuple[str, str]]
) -> None:
    assert noted(owners, platform, module) == expected


def test_a_part_of_a_foreign_package_that_is_ones_own(one: Stage, tmp_path: Path) -> None:
    # No __init__.py: the package itself runs nothing.
    write(tmp_path, {"vendor/part.py": "", "vendor/stubs.py": "", "vendor/ops.py": ""})
    write(tmp_path, {"subject.py": "import vendor.part"})
    owners = {**PART, "any": ["vendor.stubs"]}
    record = one.run("subject", on="cuda", path=[tmp_path], owners=owners)
    assert record.findings == (), told(record)
    write(tmp_path, {"subject.py": "import vendor.stubs\nimport vendor.ops\n"})
    record = one.run("subject", on="cuda", path=[tmp_path], owners=owners)
    assert [(f.kind, f.what, f.blame.line) for f in record.findings if f.blame] == [("forbidden-import", "vendor", 2)]
