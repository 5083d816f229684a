"""Contracts on calls: answers, exceptions, probes, and foreign modules in the call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contracts.conftest import PLACE, FakeStage

from conftest import write
from masquerade.contracts import Configuration, run
from masquerade.stage import Finding, Line, Record, Stage
from masquerade.stage.record import Probe

TEXT = """
    machines = ["h100", "mi300x"]
    [[contracts]]
    name = "moe"
    kind = "calls"
    function = "pkg.moe:setup"
"""


def judged(project, stage: FakeStage, text: str) -> dict[str, Record]:
    configuration = project(TEXT + text)
    return {case.check.machine.id: record for case, record in run(configuration, stage)}


def told(record: Record) -> list[tuple[str, str, str]]:
    return [(f.kind, f.what, f.message) for f in record.findings]


def test_what_is_asked_of_the_stage(project, stage) -> None:
    judged(
        project,
        stage,
        """
        args = [1, [2.5, "x"], {a = true}]
        kwargs = {hidden = 4096}
        factory = "tests.factories:make"
        env_after_import = {A = "1", B = false}
        present = ["aiter"]
        probes = {"pkg.probe:on_gfx1250" = 0}
        timeout = 9
        levels = {call-mismatch = "off"}
        """,
    )
    check = stage.checks[0]
    assert (check.subject, check.machine.id) == ("pkg.moe:setup", "h100+aiter")
    assert check.id == "calls/moe/pkg.moe:setup@h100+aiter"
    assert (check.args, check.kwargs) == ((1, [2.5, "x"], {"a": True}), {"hidden": 4096})
    assert (check.factory, check.probes) == ("tests.factories:make", ("pkg.probe:on_gfx1250",))
    assert (check.env_after_import, check.timeout) == ({"A": "1", "B": None}, 9)
    assert check.levels["call-mismatch"] == "error", "an answer is seen whatever its level"


@pytest.mark.parametrize(
    "want, got, says",
    [
        ("want = true", True, ""),
        ("want = true", 1, "want true, got 1"),
        ("want = 1", True, "want 1, got true"),
        ("want = 1", 1.0, ""),
        ('want = {a = [1, false], b = "x"}', {"b": "x", "a": [1, False]}, ""),
        ("want = {a = [1]}", {"a": [1, 2]}, 'want {"a": [1]}, got {"a": [1, 2]}'),
        ('want = "x"', None, 'want "x", got null'),
        ('want = "x"', {"type": "torch.Tensor", "repr": "tensor(1)"}, 'want "x", got tensor(1)'),
        ("", {"type": "torch.Tensor", "repr": "tensor(1)"}, ""),
        ("want_on = {rocm = 2}", 1, ""),
        ("want = 2\nwant_on = {cuda = 1}", 1, ""),
        ("want = 2\nwant_on = {h100 = 1, cuda = 3}", 1, ""),
        ("want = 1\nwant_on = {cuda = 2}", 1, "want 2, got 1"),
    ],
)
def test_answers(project, stage, want, got, says) -> None:
    stage.answers = {"pkg.moe:setup": got}
    record = judged(project, stage, want)["h100"]
    assert told(record) == ([("call-mismatch", "pkg.moe:setup", says)] if says else [])
    assert all(finding.blame == PLACE for finding in record.findings)


def test_a_machine_may_be_named_with_or_without_its_packages(project, stage) -> None:
    stage.answers = {"pkg.moe:setup": 1}
    text = 'present = ["aiter"]\nwant_on = {h100 = 1, "mi300x+aiter" = 2}'
    records = judged(project, stage, text)
    assert (records["h100+aiter"].verdict, records["mi300x+aiter"].verdict) == ("ok", "call-mismatch")


@pytest.mark.parametrize(
    "text, answer, says",
    [
        ('raises = "ValueError"', ValueError("bad K"), []),
        ('raises = "ValueError"\nmessage = "K$"', ValueError("bad K"), []),
        (
            'raises = "ValueError"\nmessage = "^K"',
            ValueError("bad K"),
            [("call-mismatch", "pkg.moe:setup", "want ValueError with a message like '^K', got 'bad K'")],
        ),
        ('raises = "ValueError"', TypeError("x"), [("call-mismatch", "TypeError", "x")]),
        ('raises = "ValueError"', 7, [("call-mismatch", "pkg.moe:setup", "want ValueError, got 7")]),
        ('raises = {rocm = "ValueError"}\nwant = 7', 7, []),
        ('raises = {rocm = "ValueError"}\nwant = 7', ValueError("x"), [("call-mismatch", "ValueError", "x")]),
        ('raises = {h100 = "ValueError"}\nwant = 7', ValueError("x"), []),
        ("", ValueError("x"), [("call-mismatch", "ValueError", "x")]),
    ],
)
def test_exceptions(project, stage, text, answer, says) -> None:
    stage.answers = {"pkg.moe:setup": answer}
    assert told(judged(project, stage, text)["h100"]) == says


def test_a_missing_function_is_no_expected_exception(project, stage) -> None:
    missing = Finding("call-mismatch", "pkg.moe:setup", "call", None, message="AttributeError: no setup")
    stage.findings = {"pkg.moe:setup": (missing,)}
    assert judged(project, stage, 'raises = "AttributeError"')["h100"].findings == (missing,)


def test_a_crash_is_not_compared(project, stage) -> None:
    crash = Finding("crash", "SIGSEGV", "call", None)
    stage.findings = {"pkg.moe:setup": (crash,)}
    for text in ("want = 1", 'raises = "ValueError"'):
        assert judged(project, stage, text)["h100"].findings == (crash,)


def test_a_foreign_module_in_the_call_stays_a_fault(project, stage) -> None:
    foreign = Finding("forbidden-import", "aiter", "call", Line("pkg/moe.py", 2))
    stage.findings, stage.answers = {"pkg.moe:setup": (foreign,)}, {"pkg.moe:setup": 1}
    assert judged(project, stage, "want = 1")["h100"].findings == (foreign,)
    allow = '[[contracts.allow]]\nmodule = "pkg.moe"\nmachine = "cuda"\nkind = "forbidden-import"\nreason = "known"'
    records = judged(project, stage, f"want = 1\n    {allow}")
    assert (records["h100"].verdict, records["mi300x"].verdict) == ("ok", "forbidden-import")


@pytest.mark.parametrize(
    "expected, count, says",
    [
        ("0", 0, ""),
        ("2", 2, ""),
        ("0", 1, "want 0 calls, got 1; called at pkg/fmt.py:6"),
        ("1", 0, "want 1 calls, got 0"),
        ("{rocm = 1}", 5, ""),
        ("{cuda = 1}", 5, "want 1 calls, got 5; called at pkg/fmt.py:6"),
    ],
)
def test_probes(project, stage, expected, count, says) -> None:
    configuration = project(TEXT + f'probes = {{"pkg.probe:rocm" = {expected}}}')
    case = configuration.contracts[0].cases(stage.discover)[0]
    caller = Line("pkg/fmt.py", 6, "special = probe.rocm()")
    probe = Probe(count, (caller,) if count else ())
    record = case.judge(replace(stage.record(case.check), probes={"pkg.probe:rocm": probe}))
    assert told(record) == ([("call-mismatch", "pkg.probe:rocm", says)] if says else [])
    if says and count:
        assert record.findings[0].blame == caller


@pytest.mark.parametrize(
    "text, says",
    [
        ('raises = "E"\nwant = 1', "moe.raises: what raises gives no answer"),
        ('message = "x"', "moe.message: the message of which exception? name its type in raises"),
        ('raises = "a.B"', "moe.raises: expected the name of an exception's type alone, like ValueError, found 'a.B'"),
        ('raises = "E"\nmessage = "("', "moe.message: '(' is no regular expression"),
        ("want_on = {h200 = 1}", "moe.want_on.h200: 'h200' is no machine of this contract; did you mean h100"),
        ('probes = {"a.b" = 1}', "moe.probes.a.b: expected pkg.mod:func"),
        ('probes = {"a:b" = -1}', "moe.probes.a:b: expected a number of calls, 0 or more, found a number: -1"),
        ('probes = {"a:b" = {tpu = 1}}', "moe.probes.a:b.tpu: 'tpu' is no machine of this contract"),
        ("args = [inf]", "moe.args[0]: inf is no literal of JSON; make it in a factory"),
        ("args = [2020-01-01]", "moe.args[0]: expected text, a number, true, false, a list or a table, found a date"),
        ('factory = "make"', "moe.factory: expected pkg.mod:func, a module and a function in it, found 'make'"),
    ],
)
def test_mistakes(mistakes, text, says) -> None:
    [line] = mistakes(TEXT + text)
    assert says in line


def test_a_call_with_everything_on_the_real_stage(project, one: Stage, tmp_path: Path) -> None:
    """Two contracts on one hoisted probe: the factory's set arrives, and the calling line is to blame."""
    write(tmp_path, {
        "pkg/__init__.py": "", "pkg/probe.py": "def slow(): return False",
        "pkg/moe.py": "import os\nfrom pkg.probe import slow\ndef setup(shape, backend):\n    special = slow()\n"
                      "    return [type(shape).__name__, os.environ.get('AFTER'), backend == 'AITER' and special]\n",
        "tests/factories.py": "def make(backend): return {'shape': {1, 2}, 'backend': backend}",
    })  # fmt: skip
    contract = """
        [[contracts]]
        name = "{name}"
        kind = "calls"
        function = "pkg.moe:setup"
        machines = ["cpu"]
        factory = "tests.factories:make"
        args = ["{name}"]
        env_after_import = {{AFTER = "1"}}
        want = ["set", "1", false]
        probes = {{"pkg.probe:slow" = {number}}}
    """
    configuration: Configuration = project(
        contract.format(name="AITER", number=1) + contract.format(name="TRITON", number=0)
    )
    records = {case.contract: record for case, record in run(configuration, one)}
    assert records["AITER"].findings == ()
    [finding] = records["TRITON"].findings
    assert (finding.what, str(finding.blame)) == ("pkg.probe:slow", "pkg/moe.py:4")
    assert finding.message == "want 0 calls, got 1; called at pkg/moe.py:4"
