"""What surrounds a call: its environment, a factory of its arguments, counted probes, and an oracle's answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import told

from conftest import write
from masquerade.stage import Record

Run = Callable[..., Record]

PROBES = """
    import functools

    def rocm(): return False
    rocm_by_another_name = rocm

    @functools.lru_cache(maxsize=None)
    def cached(): return True

    def closed_over(value):
        def inner(): return value
        return inner
    inner = closed_over(3)
    other = closed_over(4)

    class Platform:
        def method(self): return 1
        @property
        def arch(self): return "gfx950"
        @staticmethod
        def static(): return 2
"""


def message(record: Record) -> tuple[str, str, str]:
    (finding,) = record.findings
    return finding.kind, finding.what, finding.message


def test_a_variable_set_after_the_import_is_seen_by_the_call_alone(run: Run) -> None:
    source = """
        import os
        AT_IMPORT = os.environ.get("SWITCH"), os.environ.get("KEPT")
        def switches(): return [AT_IMPORT, os.environ.get("SWITCH"), os.environ.get("KEPT")]
    """
    after = {"SWITCH": "1", "KEPT": None}
    record = run(source, "subject:switches", env={"KEPT": "yes"}, env_after_import=after)
    assert (record.result, record.findings) == ([[None, "yes"], "1", None], ())


@pytest.mark.parametrize(
    "made, got",
    [
        ("{'shape': (2, 3)}", "(() {'shape': (2, 3)})"),
        ("((4, 5), 'x')", "(((4, 5), 'x') {})"),
        ("([{1}], {'k': None})", "(({1},) {'k': None})"),
    ],
)
def test_a_factory_makes_arguments_that_json_cannot_hold(run: Run, tmp_path: Path, made: str, got: str) -> None:
    write(tmp_path, {"factories.py": f"def make(*given, **named): return {made}"})
    record = run("def f(*a, **k): return f'({a} {k})'", "subject:f", factory="factories:make")
    assert record.result == got


def test_a_factory_is_given_the_literals(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"factories.py": "def make(*given, **named): return [given, named]"})
    how = {"args": (1,), "kwargs": {"a": 2}, "factory": "factories:make"}
    assert run("def f(*a, **k): return [a, k]", "subject:f", **how).result == [[1], {"a": 2}]


@pytest.mark.parametrize(
    "source, says",
    [
        ("def make(): raise ValueError('no tensor')", "ValueError: no tensor"),
        ("def make(): return 7", "TypeError: it gave a int; a factory gives a dict of keyword arguments, "),
        ("def other(): pass", "AttributeError: module 'factories' has no attribute 'make'"),
    ],
)
def test_a_factory_that_fails_is_not_taken_for_the_subject(run: Run, tmp_path: Path, source: str, says: str) -> None:
    write(tmp_path, {"factories.py": source})
    kind, what, told = message(run("def f(): pass", "subject:f", factory="factories:make"))
    assert (kind, what) == ("call-mismatch", "factory factories:make")
    assert told.startswith(says)


def test_a_missing_function_is_told_by_its_name(run: Run) -> None:
    kind, what, told = message(run("def select(): pass", "subject:selct"))
    assert (kind, what) == ("call-mismatch", "subject:selct")
    assert told == "AttributeError: module 'subject' has no attribute 'selct'; did you mean select?"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"factory": "subject:mke"}, "module 'subject' has no attribute 'mke'; did you mean make?"),
        ({"probes": ("subject:Kernel.lanch",)}, "type object 'Kernel' has no attribute 'lanch'; did you mean launch?"),
        ({"factory": "subject:qqqq"}, "module 'subject' has no attribute 'qqqq'"),
    ],
)
def test_a_misspelt_factory_or_probe_gets_the_nearest_name(run: Run, how: dict[str, Any], says: str) -> None:
    source = "class Kernel:\n    def launch(self): pass\ndef make(): return []\ndef select(): pass"
    assert message(run(source, "subject:select", **how))[2] == f"AttributeError: {says}"


def test_a_failure_within_a_lazy_module_keeps_its_own_words(run: Run) -> None:
    source = "import json\ndef select(): pass\ndef __getattr__(name): return json.lods"
    assert message(run(source, "subject:selct"))[2] == "AttributeError: module 'json' has no attribute 'lods'"


@pytest.mark.parametrize(
    "call, counts",
    [
        ("rocm() or rocm_by_another_name()", {"rocm": 2}),
        ("[TABLE['rocm']() for _ in range(30)]", {"rocm": 30}),
        ("copied()", {"rocm": 1}),
        ("cached() and cached()", {"cached": 1}),
        ("inner() + other() + other()", {"inner": 1, "other": 2}),
        ("Platform().method()", {"Platform.method": 1}),
        ("Platform().arch", {"Platform.arch": 1}),
        ("Platform.static()", {"Platform.static": 1}),
        ("None", {"rocm": 0, "cached": 0}),
    ],
)
def test_probes_are_counted_by_whatever_name_they_are_called(
    run: Run, tmp_path: Path, call: str, counts: dict[str, int]
) -> None:
    write(tmp_path, {"probes.py": PROBES})
    source = f"""
        from probes import *
        from probes import rocm as copied
        TABLE = {{"rocm": copied}}
        def f(): {call}
    """
    record = run(source, "subject:f", probes=tuple(f"probes:{name}" for name in counts))
    assert {name.partition(":")[2]: probe.count for name, probe in record.probes.items()} == counts
    lines = {str(line) for probe in record.probes.values() for line in probe.callers}
    assert lines == ({"subject.py:5"} if any(counts.values()) else set())


def test_a_probe_is_counted_also_where_the_call_raises(run: Run) -> None:
    source = "def probe(): return 1\ndef f(): probe(); raise KeyError('x')"
    assert run(source, "subject:f", probes=("subject:probe",)).probes["subject:probe"].count == 1


def test_counting_imports_no_module_of_another_platform(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"owned/__init__.py": "", "owned/rocm.py": "class Platform:\n    def probe(self): return 1\n"})
    source = "def f(use):\n    if use:\n        import owned.rocm as rocm\n        rocm.Platform().probe()\n"
    counted: dict[str, Any] = {"probes": ("owned.rocm:Platform.probe",), "owners": {"rocm": ["owned.rocm"]}}
    record = run(source, "subject:f", on="xpu", args=(False,), **counted)
    assert (record.verdict, record.probes["owned.rocm:Platform.probe"].count) == ("ok", 0), told(record)
    record = run(source, "subject:f", on="rocm", args=(True,), **counted)
    assert (record.verdict, record.probes["owned.rocm:Platform.probe"].count) == ("ok", 1), told(record)
    assert run(source, "subject:f", on="xpu", args=(True,), **counted).verdict == "forbidden-import"


def test_neither_import_nor_factory_counts(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"factories.py": "import subject\ndef make(): subject.probe(); return []"})
    source = "def probe(): return 1\nprobe()\ndef f(): probe()"
    record = run(source, "subject:f", factory="factories:make", probes=("subject:probe",))
    assert record.probes["subject:probe"].count == 1


@pytest.mark.parametrize(
    "name, says",
    [
        ("subject:nothing", "AttributeError"),
        ("math:sqrt", "only the calls of Python"),
        ("no_such_module.at_all:f", "No module named"),
        ("wave:no_such_function", "has no attribute"),
    ],
)
def test_what_cannot_be_counted_is_told(run: Run, name: str, says: str) -> None:
    kind, what, told = message(run("def f(): pass", "subject:f", probes=(name,)))
    assert (kind, what) == ("call-mismatch", "counted probes") and says in told


ORACLE = """
    import enum, types
    class Kind(enum.Enum):
        CK = 1
    class Named:
        name = "marlin"
    class Decision:
        def __init__(self, backend, **more):
            self.backend = backend
            vars(self).update(more)
"""


@pytest.mark.parametrize(
    "value, got",
    [
        ("'ck'", "ck"),
        ("Kind.CK", "CK"),
        ("{'backend': 'ck'}", {"backend": "ck"}),
        ("Decision('ck', reason='fits', refused={})", {"backend": "ck", "reason": "fits"}),
        ("Decision(Named(), refused=(('ck', 'no gfx950'),))", {"backend": "marlin", "refused": {"ck": "no gfx950"}}),
        ("{'backend': Kind.CK, 'refused': {Named(): ValueError('x')}}", {"backend": "CK", "refused": {"marlin": "x"}}),
        ("True", True),
        ("{'backend': 3}", {"backend": 3}),
    ],
)
def test_an_oracle_explains_itself(run: Run, value: str, got: object) -> None:
    record = run(f"{ORACLE}\n    def f(): return {value}", "subject:f", oracle=True)
    assert (record.result, record.findings) == (got, ())


def test_where_a_function_is_defined(run: Run) -> None:
    source = """
        import functools
        def deco(function):
            @functools.wraps(function)
            def wrapper(): return function()
            return wrapper
        @deco
        def f(): return 1
    """
    record = run(source, "subject:f")
    assert record.place is not None
    assert (str(record.place), record.place.code) == ("subject.py:8", "def f(): return 1")
