"""The modules of a package are found by looking at its folders; none is imported."""

from __future__ import annotations

import importlib.machinery
import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import write
from masquerade.stage import Stage, SubjectError
from masquerade.stage.discovery import find

EXTENSION = importlib.machinery.EXTENSION_SUFFIXES[0]
Find = Callable[..., dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """Write files, none of which may be executed, and look for a name among them."""

    def look(name: str, *files: str) -> dict[str, Any]:
        write(tmp_path, dict.fromkeys(files, "raise AssertionError('executed')\n"))
        monkeypatch.syspath_prepend(tmp_path)
        before = set(sys.modules)
        found = find(name)
        assert not {name for name in set(sys.modules) - before if name.startswith("pkg")}
        return found

    return look


def test_a_package_and_all_below_it(look: Find, tmp_path: Path) -> None:
    found = look("pkg", "pkg/__init__.py", "pkg/b.py", "pkg/a/__init__.py", "pkg/a/deep.py")
    assert found == {"modules": ["pkg", "pkg.a", "pkg.a.deep", "pkg.b"], "notes": [], "root": str(tmp_path)}


def test_a_part_of_a_package(look: Find, tmp_path: Path) -> None:
    found = look("pkg.a", "pkg/__init__.py", "pkg/b.py", "pkg/a/__init__.py", "pkg/a/deep.py")
    assert found == {"modules": ["pkg.a", "pkg.a.deep"], "notes": [], "root": str(tmp_path)}


def test_a_module_alone(look: Find, tmp_path: Path) -> None:
    assert look("pkgone", "pkgone.py") == {"modules": ["pkgone"], "notes": [], "root": str(tmp_path)}
    assert look("pkg.b", "pkg/__init__.py", "pkg/b.py")["modules"] == ["pkg.b"]


def test_namespace_packages(look: Find) -> None:
    found = look("pkgns", "pkgns/one/a.py", "pkgns/two/inner/b.py", "pkgns/data/readme.txt")
    inner = ["pkgns.one", "pkgns.one.a", "pkgns.two", "pkgns.two.inner", "pkgns.two.inner.b"]
    assert found["modules"] == ["pkgns", *inner]


def test_a_namespace_package_over_two_folders(look: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "more", {"pkgns/there.py": "", "pkgns/here.py": ""})
    monkeypatch.syspath_prepend(tmp_path / "more")
    assert look("pkgns", "pkgns/here.py")["modules"] == ["pkgns", "pkgns.here", "pkgns.there"]


def test_extension_files(look: Find, tmp_path: Path) -> None:
    write(tmp_path, {f"pkg/_fast{EXTENSION}": "PyInit__fast", "pkg/_abi.abi3.so": "PyInit__abi"})
    found = look("pkg", "pkg/__init__.py", "pkg/libhelper.so.1", "pkg/x.pyi")
    assert found["modules"] == ["pkg", "pkg._abi", "pkg._fast"]


def test_a_shared_library_that_is_no_module(look: Find, tmp_path: Path) -> None:
    write(tmp_path, {"pkg/libcupti.so": "PyInit_other", "pkg/libempty.so": ""})
    assert look("pkg", "pkg/__init__.py")["modules"] == ["pkg"]


def test_bytecode_alone(look: Find, tmp_path: Path) -> None:
    root = write(tmp_path, {"pkg/__init__.py": "", "pkg/only.py": "", "pkg/sub/__init__.py": ""})
    for name in ("only", "sub/__init__"):
        py_compile.compile(str(root / f"pkg/{name}.py"), cfile=str(root / f"pkg/{name}.pyc"))
        (root / f"pkg/{name}.py").unlink()
    py_compile.compile(str(root / "pkg/__init__.py"))  # into __pycache__, which is no package
    assert look("pkg")["modules"] == ["pkg", "pkg.only", "pkg.sub"]


def test_a_source_and_its_bytecode_are_one_module(look: Find, tmp_path: Path) -> None:
    root = write(tmp_path, {"pkg/__init__.py": "", "pkg/both.py": ""})
    py_compile.compile(str(root / "pkg/both.py"), cfile=str(root / "pkg/both.pyc"))
    assert look("pkg")["modules"] == ["pkg", "pkg.both"]


def test_symbolic_links_that_go_in_circles(look: Find, tmp_path: Path) -> None:
    root = write(tmp_path, {"pkg/__init__.py": "", "pkg/a/__init__.py": "", "pkg/a/m.py": ""})
    (root / "pkg/a/again").symlink_to(root / "pkg")
    (root / "pkg/loop").symlink_to(root / "pkg/loop")
    (root / "pkg/dangling.py").symlink_to(root / "nowhere.py")
    found = look("pkg")
    assert found["modules"] == ["pkg", "pkg.a", "pkg.a.m", "pkg.a.again"]  # named once, not gone into
    assert len(found["notes"]) == 1 and "Too many levels of symbolic links" in found["notes"][0]


def test_a_linked_folder_is_looked_at_once(look: Find, tmp_path: Path) -> None:
    root = write(tmp_path, {"pkg/__init__.py": "", "pkg/real/__init__.py": "", "pkg/real/m.py": ""})
    (root / "pkg/alias").symlink_to(root / "pkg/real")
    assert look("pkg")["modules"] == ["pkg", "pkg.real", "pkg.real.m", "pkg.alias"]


@pytest.mark.parametrize("name", ["with-dash.py", "1st.py", "two words.py", "dotted.name.py"])
def test_a_name_that_no_import_can_say_is_noted(look: Find, name: str) -> None:
    found = look("pkg", "pkg/__init__.py", f"pkg/{name}", "pkg/größe.py")
    assert found["modules"] == ["pkg", "pkg.größe"]
    assert len(found["notes"]) == 1 and name in found["notes"][0]


@pytest.mark.parametrize("name", ["class.py", "import.py", "None.py"])
def test_a_keyword_is_a_name_that_import_module_can_say(look: Find, name: str) -> None:
    assert f"pkg.{name[:-3]}" in look("pkg", "pkg/__init__.py", f"pkg/{name}")["modules"]


def test_a_main_module_is_not_imported_and_said_so(look: Find) -> None:
    found = look("pkg", "pkg/__init__.py", "pkg/__main__.py", "pkg/sub/__init__.py", "pkg/sub/__main__.py")
    assert found["modules"] == ["pkg", "pkg.sub"]
    assert [note.split()[0] for note in found["notes"]] == ["pkg.__main__", "pkg.sub.__main__"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_noted(look: Find, tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/shut/__init__.py": ""})
    (tmp_path / "pkg/shut").chmod(0)
    try:
        assert "Permission denied" in look("pkg")["notes"][0]
    finally:
        (tmp_path / "pkg/shut").chmod(0o700)


@pytest.mark.parametrize(
    "wrong, near",
    [("pkgmisspelt_frm", "pkgmisspelt_form"), ("pkgmisspelt_form.registri", "pkgmisspelt_form.registry")],
)
def test_a_name_that_is_not_there_gets_the_nearest(look: Find, wrong: str, near: str) -> None:
    found = look(wrong, "pkgmisspelt_form/__init__.py", "pkgmisspelt_form/registry.py")
    assert found["modules"] == [] and found["near"][0] == near


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", ".pkg", "pkg.", "os.path.x", "a" * 5000, "nul\0byte", "../pkg", "sys.x"]
)
def test_a_name_that_is_none_is_not_found(look: Find, name: str) -> None:
    assert look(name)["modules"] == []


def test_built_in_and_standard_modules(look: Find) -> None:
    assert look("sys")["modules"] == ["sys"]
    assert "json.decoder" in look("json")["modules"]


def test_the_stage_finds_in_the_subjects_interpreter_and_names_neighbours(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"found/__init__.py": "raise AssertionError", "found/layer.py": "raise AssertionError"})
    discovery = one.discover("found", [str(tmp_path)])
    assert (discovery.modules, discovery.root) == (("found", "found.layer"), str(tmp_path))
    with pytest.raises(SubjectError, match=r"there is no module found.layr in .*; did you mean found.layer\?"):
        one.discover("found.layr", [str(tmp_path)])
    with pytest.raises(SubjectError, match="is its folder given with --path"):
        one.discover("qqqqqqq.zzz")


def test_a_module_below_src_is_pointed_out(one, tmp_path, monkeypatch) -> None:
    (tmp_path / "src" / "qqlaid").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SubjectError, match=r"no module qqlaid\.kern in .*; src has qqlaid: say --path src"):
        one.discover("qqlaid.kern")


def test_a_name_in_a_module_may_be_one_of_its_functions(look: Find) -> None:
    found = look("pkg.ops.Gemm.launch", "pkg/__init__.py", "pkg/ops.py")
    assert (found["within"], found["near"]) == ("pkg.ops", ["pkg.ops:Gemm.launch"])


def test_where_no_module_of_a_package_is_near_the_package_is_named(look: Find) -> None:
    found = look("pkg.other.deep", "pkg/__init__.py")
    assert (found["within"], found["near"]) == ("pkg", ["pkg"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("qqlaid.kernn", r"did you mean qqlaid\.kern\?$"),
        ("qqlaid.kern.blocks", r"did you mean qqlaid\.kern:blocks\?$"),
    ],
)
def test_nobody_is_told_to_give_a_path_that_is_given(one, tmp_path, monkeypatch, name, says) -> None:
    write(tmp_path, {"src/qqlaid/__init__.py": "", "src/qqlaid/kern.py": ""})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SubjectError, match=says):
        one.discover(name, ["src"])


def test_a_package_that_is_found_elsewhere_is_not_looked_for_below_src(one, tmp_path, monkeypatch) -> None:
    write(tmp_path, {"src/qqlaid/__init__.py": "", "src/qqlaid/kern.py": ""})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "qqlaid").symlink_to(tmp_path / "src" / "qqlaid")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SubjectError, match=r"did you mean qqlaid\.kern\?$"):
        one.discover("qqlaid.kernn", ["elsewhere"])
