"""Blame: from a stack to the line that one would edit, and the chain of imports that led there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import write
from masquerade.stage.blame import CommandPlaces, Frame, Places, actor, blamed, chain, frames, probe_name, source_line

ROOT = "/app"
PLACES = Places(("/app/pkg",), ("/app", "/site"), ("/site/torch",), ("/lib/python3.11",))


def frame(file: str, line: int = 1, function: str = "<module>", module: str = "", imports: bool = False) -> Frame:
    return Frame(file, line, function, module or file[1:].removesuffix(".py").replace("/", "."), imports)


def test_rows_become_frames_and_a_zero_marks_an_import() -> None:
    rows = [["/app/pkg/a.py", 2, "<module>", "pkg.a"], 0, ["/app/pkg/b.py", 3, "f", "pkg.b"]]
    assert frames(rows) == (
        Frame("/app/pkg/a.py", 2, "<module>", "pkg.a", True),
        Frame("/app/pkg/b.py", 3, "f", "pkg.b", False),
    )


@given(st.lists(st.none() | st.integers() | st.lists(st.integers() | st.text() | st.none(), max_size=5) | st.text()))
def test_rows_that_are_none_are_left_out(rows: list[object]) -> None:
    for made in frames(rows):
        assert isinstance(made.file, str) and isinstance(made.line, int)


def test_the_subjects_innermost_frame_is_blamed() -> None:
    stack = [frame("/app/pkg/a.py", 4), frame("/app/pkg/b.py", 7), frame("/site/torch/cuda/__init__.py", 300)]
    assert blamed(stack, PLACES) == stack[1]


def test_a_neighbour_whose_name_begins_alike_is_not_the_subject() -> None:
    stack = [frame("/app/pkg/a.py", 4), frame("/app/pkg_extra/b.py", 7)]
    assert blamed(stack, PLACES) == stack[0]
    assert blamed(stack[1:], PLACES) is None


def test_the_use_of_a_decorator_is_blamed_not_its_code(tmp_path: Path) -> None:
    source = "from pkg.deco import needs\n\n\n@needs(\n    1,\n)\ndef kernel():\n    pass\n"
    root = write(tmp_path, {"pkg/ops.py": source, "pkg/deco.py": "\n" * 9})
    places = Places((str(root / "pkg"),))
    use, inside = frame(str(root / "pkg/ops.py"), 5), frame(str(root / "pkg/deco.py"), 3, "needs")
    assert blamed([use, inside], places) == use
    plain = frame(str(root / "pkg/ops.py"), 1)
    assert blamed([plain, inside], places) == inside


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("@needs(1)\ndef kernel(x: int = 3) -> str:\n    pass\n", 3),
        ("@needs(1)\nasync def kernel(x):\n    pass\n", 3),
        ("@needs(1)\ndef kernel(x): return [probe() for _ in x]\n", 4),
        ("@needs(1)\ndef kernel(x=probe()):\n    pass\n", 4),
        ("@needs(1)\ndef kernel(x: list[probe()] = None):\n    pass\n", 4),
        ("@needs(1)\nclass Kernel(Base):\n    pass\n", 4),
    ],
)
def test_python_3_10_calls_the_use_of_a_decorator_the_line_of_the_def(tmp_path: Path, head: str, line: int) -> None:
    root = write(tmp_path, {"pkg/ops.py": f"from pkg.deco import needs\n\n{head}", "pkg/deco.py": "\n" * 9})
    old = Places((str(root / "pkg"),), python="3.10.13")
    use, inside = frame(str(root / "pkg/ops.py"), 4), frame(str(root / "pkg/deco.py"), 3, "needs")
    assert old.line(use).line == line
    assert blamed([use, inside], old) == (use if line == 3 else inside)
    assert old.line(use._replace(function="")).line == 4, "a place, and no frame"
    newer = Places((str(root / "pkg"),), python="3.11.7")
    assert newer.line(use).line == 4 and blamed([use, inside], newer) == inside


def test_the_chain_names_every_import_and_skips_the_standard_library() -> None:
    stack = [
        frame("/app/pkg/cli.py", 1, imports=True),
        frame("/lib/python3.11/importlib/__init__.py", 126, imports=True),
        frame("/app/pkg/registry.py", 2, imports=True),
        frame("/site/other/__init__.py", 5, imports=True),
        frame("/app/pkg/_arch.py", 9),
        frame("/site/torch/cuda/__init__.py", 300, "get_device_properties"),
    ]
    assert [str(line) for line in chain(stack, PLACES)] == [
        "pkg/cli.py:1",
        "pkg/registry.py:2",
        "other/__init__.py:5",
        "pkg/_arch.py:9",
    ]


def test_a_fault_in_anothers_package_ends_the_chain_there() -> None:
    stack = [frame("/app/pkg/a.py", 4, imports=True), frame("/site/dep/core.py", 8), frame("/site/torch/x.py", 1)]
    assert [str(line) for line in chain(stack, PLACES)] == ["pkg/a.py:4", "dep/core.py:8"]
    assert blamed(stack, PLACES) == stack[0]


def test_the_chain_names_the_statement_of_a_module_that_calls_a_function_to_blame() -> None:
    stack = [
        frame("/app/pkg/__init__.py", 9, imports=True),
        frame("/app/pkg/kern.py", 30),
        frame("/app/pkg/utils.py", 4, "has_triton"),
        frame("/app/pkg/utils.py", 2, "_arch"),
        frame("/site/torch/cuda/__init__.py", 300, "get_device_capability"),
        frame("/site/torch/lazy.py", 8),
    ]
    assert blamed(stack, PLACES) == stack[3]
    assert [str(line) for line in chain(stack, PLACES)] == ["pkg/__init__.py:9", "pkg/kern.py:30", "pkg/utils.py:2"]


def test_a_comprehension_in_a_modules_body_is_one_link_of_the_chain() -> None:
    stack = [
        frame("/app/pkg/a.py", 4, imports=True),
        frame("/app/pkg/b.py", 7),
        frame("/app/pkg/b.py", 7, "<listcomp>"),
    ]
    assert [str(line) for line in chain(stack, PLACES)] == ["pkg/a.py:4", "pkg/b.py:7"]


def test_a_probe_is_called_by_the_name_that_foreign_code_used() -> None:
    mine = frame("/app/pkg/a.py", 4)
    outer = frame("/site/torch/cuda/__init__.py", 10, "get_device_name", "torch.cuda")
    inner = frame("/site/torch/cuda/__init__.py", 20, "_lazy_init", "torch.cuda")
    assert probe_name([mine, outer, inner], PLACES, "torch._C._cuda_init") == "torch.cuda.get_device_name"
    assert probe_name([mine], PLACES, "torch._C._cuda_init") == "torch._C._cuda_init"
    late = frame("/site/torch/extra.py", 3, "<module>", "torch.extra")
    assert probe_name([mine, late], PLACES, "p") == "torch.extra"
    assert probe_name([mine, frame("/site/torch/x.py", 3, "__init__", "torch.x")], PLACES, "p") == "p"


def test_an_object_of_torchs_is_called_by_its_class(tmp_path: Path) -> None:
    source = "class A:\n  class autocast:\n    def __init__(self):\n      init()\n\n\ndef __getattr__(_):\n  init()\n"
    root = write(tmp_path, {"torch/amp.py": source})
    places = Places(("/app/pkg",), (), (str(root / "torch"),))
    mine, file = frame("/app/pkg/a.py", 4), str(root / "torch/amp.py")
    assert probe_name([mine, frame(file, 4, "__init__", "torch.amp")], places, "p") == "torch.amp.autocast"
    assert probe_name([mine, frame(file, 8, "__getattr__", "torch.amp")], places, "p") == "p"


def test_who_acts() -> None:
    mine = frame("/app/pkg/a.py", 4, module="pkg.a")
    subprocess = frame("/lib/python3.11/subprocess.py", 10, "run", "subprocess")
    assert actor([mine, subprocess], PLACES) == "pkg.a"
    assert actor([mine, frame("/site/torch/_inductor/x.py"), subprocess], PLACES) == "torch"
    assert actor([mine, frame("/site/triton/runtime/x.py"), subprocess], PLACES) == "torch"
    assert actor([mine, frame("/lib/python3.11/platform.py", module="platform"), subprocess], PLACES) == "platform"
    assert actor([subprocess], PLACES) == "?"


def test_site_packages_below_the_standard_library_are_not_it() -> None:
    assert PLACES.in_stdlib("/lib/python3.11/json/__init__.py")
    assert PLACES.in_stdlib("<frozen importlib._bootstrap>")
    assert not PLACES.in_stdlib("/lib/python3.11/site-packages/attr/__init__.py")
    assert not PLACES.in_stdlib("/lib/python3.11x/json.py")


def test_paths_are_relative_to_the_subjects_root_or_to_the_longest_entry_of_the_path() -> None:
    places = Places(("/app/pkg",), ("/site", "/site/deep"), ("/site/torch",))
    assert places.relative("/app/pkg/a.py") == "pkg/a.py"
    assert places.relative("/site/deep/x.py") == "x.py"
    assert places.relative("/elsewhere/y.py") == "/elsewhere/y.py"
    assert Places(("/app/one.py",)).relative("/app/one.py") == "one.py"


def test_a_commands_own_code_is_all_that_is_not_installed() -> None:
    places = CommandPlaces((), (), ("/site/torch",), ("/lib/python3.11",))
    assert places.in_subject("/home/me/train.py")
    for file in ("/lib/python3.11/json.py", "/site/torch/x.py", "/venv/site-packages/dep.py", "<frozen runpy>"):
        assert not places.in_subject(file)


def test_the_line_that_started_the_server_is_no_part_of_a_stack() -> None:
    started = [frame("<string>", 9, module="__main__"), frame("/app/pkg/a.py", 4)]
    assert PLACES.outer(started) == started[1:]
    assert CommandPlaces(()).outer(started) == started


def test_source_lines_are_read_from_regular_files_alone(tmp_path: Path) -> None:
    file = write(tmp_path, {"a.py": "one = 1\n    two = 2\n"}) / "a.py"
    assert source_line(str(file), 2) == "two = 2"
    assert source_line(str(file), 99) == source_line(str(file), 0) == source_line(str(tmp_path / "none.py"), 1) == ""
    os.mkfifo(tmp_path / "pipe.py")
    assert source_line(str(tmp_path / "pipe.py"), 1) == ""  # does not wait for a writer
    assert source_line("/dev/zero", 1) == source_line("nul\0byte", 1) == ""


@pytest.mark.parametrize("source", [b"@broken(\n", b"\xff\xfe\x00", b"(" * 5000])
def test_a_source_that_cannot_be_parsed_has_no_decorators(tmp_path: Path, source: bytes) -> None:
    root = write(tmp_path, {"pkg/a.py": source})
    places = Places((str(root / "pkg"),))
    stack = [frame(str(root / "pkg/a.py"), 1), frame(str(root / "pkg/b.py"), 2)]
    assert blamed(stack, places) == stack[1]
