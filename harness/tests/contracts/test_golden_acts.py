"""The four acts: each does its own part and leaves the rest; and how changes are told."""

from __future__ import annotations

from masquerade.contracts.golden import (
    Answer,
    Change,
    Compared,
    Comparison,
    Plan,
    Row,
    Table,
    act,
    compare,
    create,
    fix,
    lines,
    trim,
    update,
)

#: h100 is right, mi355x is wrong in small and lacks large, old no longer runs, and so does the column gone.
TABLE = Table(
    ("small", "gone"),
    (
        Row("old", {"small": "ck", "gone": "ck"}, "PR 1"),
        Row("mi355x", {"small": "ck", "gone": "ck"}, "PR 1"),
        Row("h100", {"small": "marlin", "gone": "ck"}, "PR 1"),
    ),
    ("# head",),
    {"machine": 20},
)
PLAN = Plan(
    ["h100", "mi300x", "mi355x"],
    ["large", "small"],
    {
        "h100": {"small": Answer("marlin"), "large": Answer("cutlass")},
        "mi300x": {"small": Answer("triton")},
        "mi355x": {"small": Answer("aiter", "it fits", {"ck": "off"}), "large": Answer("aiter")},
    },
    "PR 2",
)


def shown(table: Table) -> list[tuple[str, dict[str, str], str]]:
    return [(row.machine, dict(row.cells), row.source) for row in table.rows]


def test_create_adds_what_is_missing_and_nothing_else() -> None:
    after = create(TABLE, PLAN)
    assert after.columns == ("small", "gone", "large")
    assert shown(after) == [
        ("old", {"small": "ck", "gone": "ck", "large": "?"}, "PR 1"),
        ("mi355x", {"small": "ck", "gone": "ck", "large": "aiter"}, "PR 1; large: PR 2"),
        ("h100", {"small": "marlin", "gone": "ck", "large": "cutlass"}, "PR 1; large: PR 2"),
        ("mi300x", {"small": "triton", "gone": "?", "large": "?"}, "PR 2"),
    ]
    assert create(after, PLAN) == after


def test_fix_changes_wrong_answers_alone() -> None:
    after = fix(TABLE, PLAN)
    assert after.columns == TABLE.columns
    assert shown(after) == [
        ("old", {"small": "ck", "gone": "ck"}, "PR 1"),
        ("mi355x", {"small": "aiter", "gone": "ck"}, "PR 1; small: PR 2"),
        ("h100", {"small": "marlin", "gone": "ck"}, "PR 1"),
    ]
    assert fix(after, PLAN) == after


def test_the_source_of_a_row_that_is_new_as_a_whole_is_the_new_one() -> None:
    table = Table(("small",), (Row("mi355x", {"small": "ck"}, "PR 1"),))
    assert shown(fix(table, PLAN)) == [("mi355x", {"small": "aiter"}, "PR 2")]
    assert fix(table, Plan(PLAN.machines, PLAN.problems, PLAN.answers)).rows[0].source == "unknown"


def test_an_answer_that_did_not_come_changes_nothing() -> None:
    plan = Plan(PLAN.machines, PLAN.problems, {})
    assert fix(TABLE, plan) == TABLE
    assert shown(create(Table(), plan)) == []


def test_update_changes_order_and_layout_and_no_answer() -> None:
    table = Table(
        ("small", "large"), (Row("mi355x", {"small": "ck", "large": "aiter"}), Row("h100", {"small": '"marlin"'}))
    )
    after = update(table, PLAN)
    assert (after.columns, after.widths) == (("large", "small"), {})
    assert shown(after) == [
        ("h100", {"large": "?", "small": "marlin"}, "unknown"),
        ("mi355x", {"large": "aiter", "small": "ck"}, "unknown"),
    ]


def test_trim_takes_out_what_no_longer_runs_alone() -> None:
    assert shown(trim(TABLE, PLAN)) == [("mi355x", {"small": "ck"}, "PR 1"), ("h100", {"small": "marlin"}, "PR 1")]


def test_reasons_follow_their_answers() -> None:
    old = {"h100": {"small": Answer("marlin", "old words")}, "mi355x": {"small": Answer("ck", "old words")}}
    plan = Plan(PLAN.machines, PLAN.problems, {**PLAN.answers, "h100": {"small": Answer("marlin", "new words")}})
    words = {
        name: {(m, p): said.reason for m, row in act(name, TABLE, old, plan)[1].items() for p, said in row.items()}
        for name in ("create", "fix", "update", "trim")
    }
    assert words["fix"] == {("h100", "small"): "old words", ("mi355x", "small"): "it fits"}
    assert words["update"] == {("h100", "small"): "new words", ("mi355x", "small"): "old words"}
    assert words["trim"] == {("h100", "small"): "old words", ("mi355x", "small"): "old words"}
    assert words["create"][("mi300x", "small")] == "" and words["create"][("h100", "small")] == "old words"


def test_what_differs_and_why() -> None:
    before = {"mi355x": {"small": Answer("ck", "", {"aiter": "not installed"})}}
    changes = compare(TABLE, before, PLAN.answers)
    assert [(c.machine, c.problem, c.old, c.new) for c in changes] == [
        ("h100", "large", "?", "cutlass"), ("mi300x", "small", "?", "triton"),
        ("mi355x", "small", "ck", "aiter"), ("mi355x", "large", "?", "aiter"),
    ]  # fmt: skip
    assert changes[2].why == ("ck is refused: off", "aiter was refused before: not installed", "aiter: it fits")


def test_reasons_of_another_answer_say_nothing() -> None:
    before = {"mi355x": {"small": Answer("other", "", {"aiter": "not installed"})}}
    [change] = [c for c in compare(TABLE, before, PLAN.answers) if c.old == "ck"]
    assert change.why == ("ck is refused: off", "aiter: it fits")


def comparison(*rows: tuple[str, list[tuple[str, str, str, tuple[str, ...]]]]) -> Comparison:
    made = tuple(
        Compared(name, tuple(Change(name, problem, old, new, why, line) for problem, old, new, why in changes))
        for line, (name, changes) in enumerate(rows, 5)
    )
    return Comparison("moe", "moe.md", (), made, 40)


def test_rows_that_changed_alike_are_told_once() -> None:
    off = ("ck is refused: off",)
    both = [("small", "ck", "triton", off), ("large-K", "ck", "triton", off)]
    told = lines(comparison(("a", both), ("b", both[:1]), ("c", both), ("d", [("small", "ck", "aiter", ())])))
    assert list(told) == [
        "moe: 6 of 40 answers differ from moe.md",
        "  a, b, c (lines 5, 6, 7)",
        "    small  want ck, got triton",
        "      ck is refused: off",
        "  a, c (lines 5, 7)",
        "    large-K  want ck, got triton",
        "      ck is refused: off",
        "  d (line 8)",
        "    small  want ck, got aiter",
        "  where the new answers are right, `masquerade check --golden fix` writes them",
    ]


def test_many_rows_and_reasons_are_counted() -> None:
    told = list(lines(comparison(*((f"m{n}", [("p", "a", "b", (f"why {n}",))]) for n in range(9)))))
    assert told[1] == "  m0, m1, m2, m3, m4, m5 and 3 more (lines 5, 6, 7, 8, 9, 10 and 3 more)"
    assert told[-2] == "      and 3 other reasons"


def test_nothing_is_told_of_a_table_that_holds() -> None:
    assert list(lines(comparison(("a", [])))) == []
