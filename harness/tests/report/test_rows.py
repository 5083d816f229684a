"""The matrix stays readable when a whole package is hit."""

from __future__ import annotations

from masquerade.report.rows import UNFOLDED_ROWS, Row, cells, fold, rows

BAD, WORSE = ("device-init",), ("crash",)


def test_modules_of_a_package_that_fare_alike_fold_into_one_row() -> None:
    single = [Row(name, BAD) for name in ("pkg", "pkg.a", "pkg.a.x", "pkg.a.y", "pkg.b")]
    assert fold(single) == [Row("pkg.*", BAD, 5)]


def test_an_outlier_keeps_its_own_row() -> None:
    single = [Row("pkg.a", BAD), Row("pkg.b", WORSE), Row("pkg.c", BAD), Row("other", BAD)]
    assert fold(single) == [Row("pkg.*", BAD, 2), Row("pkg.b", WORSE), Row("other", BAD)]


def test_no_subject_is_lost_in_folding() -> None:
    single = [
        Row(f"pkg.{a}.{b}.{c}", BAD if (a + b + c) % 3 else WORSE) for a in range(4) for b in range(4) for c in range(4)
    ]
    assert sum(row.count for row in fold(single)) == len(single)


def test_a_function_folds_with_its_module() -> None:
    assert fold([Row("pkg.mod", BAD), Row("pkg.mod:f", BAD), Row("pkg.mod:g", WORSE)]) == [
        Row("pkg.*", BAD, 2),
        Row("pkg.mod:g", WORSE),
    ]


def test_few_rows_are_shown_as_they_are(check, results, device_init) -> None:
    names = [f"pkg.m{index:03}" for index in range(UNFOLDED_ROWS + 1)]
    run = results([check(name, "h100", device_init) for name in names])
    assert [row.name for row in rows(names[:UNFOLDED_ROWS], run)] == names[:UNFOLDED_ROWS]
    assert [row.name for row in rows(names, run)] == ["pkg.*"]
    assert [row.name for row in rows(names, run, folded=False)] == names


def test_cells_tell_error_warning_and_no_check_apart(check, results, device_init) -> None:
    from masquerade.stage.record import Finding, Line

    warning = Finding("env-mutation", "PYTHONPATH", "import", Line("a.py", 1))
    run = results([check("a", "h100", device_init, warning), check("a", "mi300x", warning), check("a", "b580")])
    assert cells("a", run) == ("device-init", "(env-mutation)", "ok", "-")
