"""Contracts on routing: machines and library sets, what counts as an answer, and what differs from the table."""

from __future__ import annotations

import pytest
from contracts.conftest import PLACE

from masquerade.contracts import collect, finish, golden, run
from masquerade.contracts.runner import unjudged
from masquerade.stage import Finding, Record

TEXT = """
    machines = ["h100", "mi355x"]
    [[contracts]]
    name = "moe"
    kind = "routing"
    function = "pkg.route:select"
    golden = "moe.md"
    {more}
    [contracts.problems]
    small = {{args = [1]}}
    large = {{args = [4096], env = {{A = "1"}}}}
"""
TABLE = """\
# pkg.route:select

| machine | small | large | source |
|---------|-------|-------|--------|
| h100    | ck    | ck    | PR 1   |
| mi355x  | ck    | aiter | PR 1   |
"""
ALL_CK = {"pkg.route:select": "ck", "routing/moe/large@mi355x": "aiter"}


@pytest.fixture
def moe(project, tmp_path):
    def make(table: str | None = TABLE, more: str = "", **how):
        if table is not None:
            (tmp_path / "moe.md").write_text(table)
        return project(TEXT.format(more=more), **how)

    return make


def judged(configuration, stage) -> dict[str, Record]:
    return {case.id: record for case, record in run(configuration, stage)}


def told(record: Record) -> list[tuple[str, str, str]]:
    return [(f.kind, f.what, f.message) for f in record.findings]


def test_the_right_table_passes(moe, stage) -> None:
    stage.answers = ALL_CK
    configuration = moe()
    cases = collect(configuration.contracts, stage.discover)
    pairs = list(run(configuration, stage, cases))
    assert [(case.id, record.verdict) for case, record in pairs] == [
        ("routing/moe/small@h100", "ok"), ("routing/moe/large@h100", "ok"),
        ("routing/moe/small@mi355x", "ok"), ("routing/moe/large@mi355x", "ok"),
    ]  # fmt: skip
    assert finish(cases, pairs) == ()
    assert pairs[1][1].subject == "pkg.route:select[large]"
    assert (stage.checks[1].args, stage.checks[1].env, stage.checks[1].oracle) == ((4096,), {"A": "1"}, True)


def test_library_sets_are_rows(moe, stage) -> None:
    configuration = moe(None, 'libraries = ["", "+aiter", "-aiter+flashinfer"]\n    present = ["amdsmi"]')
    [contract] = configuration.contracts
    assert [machine.id for machine in contract.variants()] == [
        "h100+amdsmi", "h100+amdsmi+aiter", "h100+amdsmi+flashinfer-aiter",
        "mi355x+amdsmi", "mi355x+amdsmi+aiter", "mi355x+amdsmi+flashinfer-aiter",
    ]  # fmt: skip
    assert "aiter" in contract.variants()[1].packages["present"]
    assert "aiter" in contract.variants()[2].packages["absent"]


def test_a_wrong_answer_is_named_with_want_got_and_why(moe, stage, tmp_path) -> None:
    before = {"mi355x": {"large": {"answer": "aiter", "refused": {"triton": "no kernel for K % 128"}}}}
    import json

    (tmp_path / "moe.reasons.json").write_text(json.dumps(before))
    answer = {"backend": "triton", "reason": "it fits", "refused": {"aiter": "needs gfx942", "ck": "off"}}
    stage.answers = {**ALL_CK, "routing/moe/large@mi355x": answer}
    record = judged(moe(), stage)["routing/moe/large@mi355x"]
    says = (
        "want aiter, got triton (moe.md:6); aiter is refused: needs gfx942; "
        "triton was refused before: no kernel for K % 128; triton: it fits"
    )
    assert told(record) == [("route-mismatch", "large: aiter -> triton", says)]
    assert record.findings[0].blame == PLACE


def test_an_exception_is_the_text_of_its_cell_and_the_rest_is_checked(moe, stage) -> None:
    stage.answers = {**ALL_CK, "routing/moe/small@h100": ValueError("bad K\nmore")}
    records = judged(moe(), stage)
    [finding] = records["routing/moe/small@h100"].findings
    assert (finding.kind, finding.what) == ("route-mismatch", "small: ck -> !ValueError")
    assert finding.message == "want ck, got !ValueError (moe.md:5); ValueError: bad K"
    assert [record.verdict for record in records.values()].count("ok") == 3
    expected = judged(moe(TABLE.replace("| h100    | ck ", "| h100    | !ValueError ")), stage)
    assert expected["routing/moe/small@h100"].findings == ()
    assert (
        judged(moe(TABLE.replace("| h100    | ck ", "| h100    | !TypeError ")), stage)["routing/moe/small@h100"]
        .findings[0]
        .what
        == "small: !TypeError -> !ValueError"
    )


@pytest.mark.parametrize(
    "result, shown",
    [
        (None, "null"),
        (True, "true"),
        ({"backend": 3}, '{"backend": 3}'),
        ({"type": "pkg.Thing", "repr": "<Thing>"}, "<Thing>"),
    ],
)
def test_what_is_no_answer_is_a_finding_of_its_cell(moe, stage, result, shown) -> None:
    stage.answers = {**ALL_CK, "routing/moe/small@h100": result}
    records = judged(moe(), stage)
    [(kind, what, message)] = told(records["routing/moe/small@h100"])
    assert (kind, what) == ("route-mismatch", "small: no answer")
    assert message.startswith(f"{shown} names no backend; an oracle answers with a text, or with an object or dict")
    assert [record.verdict for record in records.values()].count("ok") == 3


def test_an_answer_that_no_table_can_show_is_a_finding(moe, stage) -> None:
    stage.answers = {**ALL_CK, "routing/moe/small@h100": "x" * 201}
    [(_, what, message)] = told(judged(moe(), stage)["routing/moe/small@h100"])
    assert what == "small: no answer" and message.endswith("... has 201 characters; a cell holds up to 200")


def test_any_values_where_the_contract_says_so(moe, stage) -> None:
    table = TABLE.replace("ck   ", "true ").replace("aiter", "[false,0]")
    stage.answers = {"pkg.route:select": True, "routing/moe/large@mi355x": [False, 0]}
    configuration = moe(table, 'answers = "values"')
    assert {record.verdict for record in judged(configuration, stage).values()} == {"ok"}
    assert not stage.checks[0].oracle
    stage.answers["routing/moe/large@mi355x"] = [False, 1]
    [finding] = judged(configuration, stage)["routing/moe/large@mi355x"].findings
    assert finding.what == "large: [false,0] -> [false, 1]"
    stage.answers["routing/moe/large@mi355x"] = {"type": "pkg.Thing", "repr": "<Thing>"}
    [finding] = judged(configuration, stage)["routing/moe/large@mi355x"].findings
    assert finding.message == "<Thing> is a pkg.Thing; an answer is a value that JSON can hold"


def test_a_crash_or_a_failed_import_stays_what_it_is(moe, stage) -> None:
    for kind in ("crash", "import-error", "timeout"):
        finding = Finding(kind, "x", "import", None)
        stage.findings, stage.answers = {"pkg.route:select": (finding,)}, {}
        assert {record.findings for record in judged(moe(), stage).values()} == {(finding,)}


def test_a_missing_function_or_a_failed_factory_is_no_answer(moe, stage) -> None:
    for what in ("pkg.route:select", "factory tests.factories:make", "counted probes"):
        finding = Finding("call-mismatch", what, "call", None, message="AttributeError: no such thing")
        stage.findings, stage.answers = {"pkg.route:select": (finding,)}, {}
        assert {record.findings for record in judged(moe(), stage).values()} == {(finding,)}


def test_an_answer_beside_a_foreign_module_is_compared_and_the_module_told(moe, stage) -> None:
    foreign = Finding("forbidden-import", "aiter", "call", None)
    stage.findings, stage.answers = {"routing/moe/small@h100": (foreign,)}, {**ALL_CK, "routing/moe/small@h100": "x"}
    assert [f.kind for f in judged(moe(), stage)["routing/moe/small@h100"].findings] == [
        "forbidden-import", "route-mismatch"
    ]  # fmt: skip


def test_without_a_table_every_cell_says_how_to_get_one(moe, stage) -> None:
    stage.answers = ALL_CK
    configuration = moe(None)
    cases = collect(configuration.contracts, stage.discover)
    pairs = list(run(configuration, stage, cases))
    assert {record.verdict for _, record in pairs} == {"route-mismatch"}
    says = "no golden answer yet, got ck; `masquerade check --golden create` writes it"
    assert told(pairs[0][1]) == [("route-mismatch", "small: ? -> ck", says)]
    [broken] = finish(cases, pairs)
    assert "there is no golden table yet" in broken.message


def test_no_table_is_promised_where_no_answer_came(moe, stage) -> None:
    finding = Finding("call-mismatch", "pkg.route:select", "call", None, message="AttributeError: no such thing")
    stage.findings, configuration = {"pkg.route:select": (finding,)}, moe(None)
    cases = collect(configuration.contracts, stage.discover)
    [broken] = finish(cases, list(run(configuration, stage, cases)))
    assert broken.message == "moe.md: there is no golden table yet, and no answer came to write"


def test_a_row_that_no_longer_runs_is_stale(moe, stage) -> None:
    stage.answers = ALL_CK
    configuration = moe(TABLE + "| h200    | ck    | ck    | PR 1   |\n")
    cases = collect(configuration.contracts, stage.discover)
    [broken] = finish(cases, list(run(configuration, stage, cases)))
    assert str(broken) == (
        "moe.md:7: moe: stale: row h200 no longer runs; put the machine back, or take the row out with "
        "`masquerade check --golden trim`"
    )


def test_the_level_of_a_mismatch_is_the_contracts(moe, stage) -> None:
    stage.answers = {"pkg.route:select": "other"}
    records = judged(moe(more='levels = {route-mismatch = "warn"}'), stage)
    assert {(record.verdict, record.failed) for record in records.values()} == {("route-mismatch", False)}
    off = judged(moe(more='levels = {route-mismatch = "off"}'), stage)
    assert {record.verdict for record in off.values()} == {"ok"}


def test_the_table_beside_the_answers(moe, stage) -> None:
    stage.answers = {**ALL_CK, "routing/moe/small@mi355x": ValueError("x"), "routing/moe/small@h100": 3}
    configuration = moe()
    [contract] = configuration.contracts
    comparison = contract.compared(list(run(configuration, stage)))
    assert [(row.machine, row.source) for row in comparison.rows] == [("h100", "PR 1"), ("mi355x", "PR 1")]
    assert comparison.rows[0].cells == ("ck", "ck") and comparison.rows[1].cells[1] == "aiter"
    [change] = comparison.changes
    assert (change.machine, change.problem, change.old, change.new) == ("mi355x", "small", "ck", "!ValueError")
    assert list(golden.lines(comparison))[:4] == [
        "moe: 1 of 3 answers differ from moe.md",
        "  asked: pkg.route:select in pkg/route.py:3",
        "  mi355x (line 6)",
        "    small  want ck, got !ValueError",
    ]


def test_a_new_column_of_one_exception_is_doubted(moe, stage) -> None:
    wrong = TypeError("select() takes 1 positional argument but 2 were given")
    stage.answers = {**ALL_CK, "routing/moe/small@h100": wrong, "routing/moe/small@mi355x": wrong}
    configuration = moe(TABLE.replace("ck    | ck ", "?     | ck ").replace("| ck    | aiter", "| ?     | aiter"))
    [contract] = configuration.contracts
    pairs = list(unjudged(configuration, stage))
    after, _ = contract.rewritten("create", pairs, "PR 2")
    says = "small is !TypeError on all machines: select() takes 1 positional argument but 2 were given"
    assert list(after.doubts(contract.table, pairs)) == [says]
    assert list(after.doubts(after.table, pairs)) == [], "it was so before"
    stage.answers["routing/moe/small@h100"] = ValueError("x")
    pairs = list(unjudged(configuration, stage))
    assert list(contract.rewritten("create", pairs, "PR 2")[0].doubts(contract.table, pairs)) == [], "two exceptions"
    some = [pair for pair in pairs if pair[0].check.machine.id == "mi355x"]
    after = contract.rewritten("create", some, "PR 2")[0]
    assert list(after.doubts(contract.table, some)) == [says.replace("all machines", "mi355x")]


@pytest.mark.parametrize(
    "text, says",
    [
        ("problems = {}", "moe.problems: there is no problem to ask"),
        ("problems = {machine = {}}", "moe.problems.machine: 'machine' is a column of every golden table"),
        ("problems = {'a|b' = {}}", "moe.problems.a|b: expected a name of letters, digits and"),
        ("problems = {a = {agrs = []}}", "moe.problems.a.agrs: no such setting; did you mean args"),
        ("problems = {a = {}}\nlibraries = ['aiter']", "moe.libraries[0]: expected packages with + or -"),
        ("problems = {a = {}}\nlibraries = []", "moe.libraries: an empty list checks nothing"),
        (
            "problems = {a = {}}\nmachines = ['here']\nlibraries = ['+a']",
            "moe.libraries: the machine here has the packages",
        ),
        ("problems = {a = {}}\nanswers = 'value'", "moe.answers: 'value' is not known here; did you mean values?"),
        ("problems = {a = {}}\ngolden = 'no/where.md'", "there is no folder"),
        ("problems = {a = {}}\ngolden = '.'", "moe.golden: '.' is a folder; name a file in it"),
    ],
)
def test_mistakes(mistakes, text, says) -> None:
    golden = "" if "golden" in text else 'golden = "moe.md"\n'
    [line] = mistakes(f"[[contracts]]\nname = 'moe'\nkind = 'routing'\nfunction = 'a:b'\n{golden}{text}")
    assert says in line


def test_a_column_that_is_no_problem_is_told_and_trim_may_mend_it(moe, mistakes) -> None:
    table = TABLE.replace("| large |", "| lrge  |")
    with pytest.raises(ValueError) as caught:
        moe(table)
    assert str(caught.value) == (
        "moe.md:3: column 'lrge' is no problem of moe; did you mean large? Rename it, or take it out with "
        "`masquerade check --golden trim`"
    )
    assert moe(table, act="trim").contracts[0].table.columns == ("small", "lrge")
