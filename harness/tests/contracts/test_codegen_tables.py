"""Golden tables of code generation: one for each release of Triton, and the four acts."""

from __future__ import annotations

import pytest
from contracts.compilers import TABLE, acted, broken, launch, plain, told

from masquerade.contracts import collect, golden, run
from masquerade.contracts.codegen_cells import KEYS
from masquerade.stage import Finding

# -- releases of Triton ------------------------------------------------------------------------------------------------


def test_a_release_without_a_table_is_one_fault_that_says_what_changed(gemm, compiler, tmp_path) -> None:
    (tmp_path / "gemm.3.10.0.md").write_text(TABLE)
    (tmp_path / "gemm.3.2.0.md").write_text(TABLE.replace("wgmma e4m3", "wgmma f16 "))
    configuration = gemm(more='requires = ["no spills"]')
    compiler.release("3.9.1")
    for name in ("small", "large"):
        compiler.launches[f"codegen/gemm/{name}@h200"] = [
            launch("_gemm", "wgmma bf16", registers=104), launch("_sum", shared=0, registers=40), launch("_new"),
        ]  # fmt: skip
    compiler.launches["codegen/gemm/large@mi355x"] = [plain("mi355x")[0], launch("_sum", shared=0, registers=40)]
    assert told(configuration, compiler) == {}  # no wall of red
    [fault] = broken(configuration, compiler)
    assert fault.splitlines() == [
        "masquerade.toml:2: gemm: there is no gemm.3.9.1.md for Triton 3.9.1 yet; "
        "`masquerade check --golden create` writes it. Against Triton 3.9.0:",
        "  sm_90 lost native fp8 matrix instructions: _gemm has wgmma bf16, and had wgmma e4m3",
        "  sm_90: _sum of small has registers 20 -> 40",
        "  sm_90, gfx950: _sum of large has registers 20 -> 40",
        "  2 rows are new: small _new h200 sm_90, large _new h200 sm_90",
    ]
    text, _ = acted(configuration, compiler, "create", "PR 9")
    assert text.startswith("# pkg.gemm:launch\n\nTriton 3.9.1.") and "wgmma bf16" in text and "| PR 9 " in text
    assert broken(gemm(), compiler) == []


def test_the_first_table_of_all_and_a_change_that_is_none(gemm, compiler) -> None:
    [fault] = broken(gemm(None), compiler)
    assert fault.endswith(
        "there is no gemm.3.9.0.md for Triton 3.9.0 yet; `masquerade check --golden create` writes it"
    )
    compiler.release("4.0.0")
    assert broken(gemm(), compiler)[0].endswith("Against Triton 3.9.0:\n  nothing changed beyond the tolerance")


def test_some_machines_alone_tell_of_a_missing_table_and_make_nothing_stale(gemm, compiler) -> None:
    allow = '[[contracts.allow]]\n    module = "pkg"\n    machine = "h200"\n    kind = "thread"\n    reason = "known"'
    configuration = gemm(more=allow)
    cases = [case for case in collect(configuration.contracts, compiler.discover) if "mi355x" in case.id]
    records = [record for _, record in run(configuration, compiler, cases)]
    assert cases[0].owner.finish(records) == ()
    compiler.release("4.0.0")
    cases = [case for case in collect(gemm(more=allow).contracts, compiler.discover) if "mi355x" in case.id]
    [fault] = cases[0].owner.finish(records)
    assert "there is no gemm.4.0.0.md" in str(fault)
    [note] = cases[0].judge(records[0]).notes
    assert note == "compared with no golden table: there is no gemm.4.0.0.md for Triton 4.0.0 yet"


def test_a_subject_without_triton_is_a_mistake(gemm, compiler, tmp_path) -> None:
    compiler.site = tmp_path / "empty"
    with pytest.raises(ValueError, match="the subject has no Triton, whose release names the golden table"):
        collect(gemm().contracts, compiler.discover)


# -- the four acts -----------------------------------------------------------------------------------------------------


def test_create_writes_the_table_as_it_is_documented(gemm, compiler) -> None:
    text, changed = acted(gemm(None), compiler, "create", "PR 1")
    assert (text, changed) == (TABLE, True)
    assert acted(gemm(None), compiler, "create", "PR 2") == (TABLE, False)


def test_create_adds_rows_where_they_belong_and_leaves_the_others(gemm, compiler) -> None:
    lines = TABLE.splitlines(keepends=True)
    without = "".join(line for line in lines if "| small         | _sum   | h200" not in line)
    wrong = without.replace("wgmma e4m3", "wgmma bf16")
    text, _ = acted(gemm(wrong), compiler, "create")
    assert text == TABLE.replace("wgmma e4m3", "wgmma bf16").replace(
        "20        | 0      | PR 1", "20        | 0      | PR 2", 1
    )


def test_fix_changes_what_moved_beyond_the_tolerance_alone(gemm, compiler) -> None:
    old = TABLE.replace("wgmma e4m3", "wgmma bf16", 1).replace("| 100 ", "| 104 ")
    acted(gemm(old), compiler, "fix")
    table = golden.read("gemm.3.9.0.md", KEYS)
    assert table.row("small _gemm h200 sm_90").cells["registers"] == "104"
    assert table.row("small _gemm h200 sm_90").source == "PR 1; instructions: PR 2"
    assert {row.source for row in table.rows[1:]} == {"PR 1"}


def test_update_writes_the_numbers_that_moved_less(gemm, compiler) -> None:
    old = TABLE.replace("| 100 ", "| 104 ").replace("wgmma e4m3", "wgmma bf16", 1)
    text, _ = acted(gemm(old), compiler, "update")
    assert text == TABLE.replace("wgmma e4m3", "wgmma bf16", 1)
    assert acted(gemm(), compiler, "update", only="mi355x") == (TABLE, False)


def test_trim_takes_out_what_no_longer_runs_and_nothing_that_was_not_asked(gemm, compiler) -> None:
    more = TABLE + TABLE.splitlines(keepends=True)[-1].replace("_sum ", "_old ")
    more += TABLE.splitlines(keepends=True)[-1].replace("mi355x", "t4    ").replace("gfx950", "sm_75 ")
    assert acted(gemm(more), compiler, "trim", only="h200")[0] == more.rpartition("| large ")[0]
    assert acted(gemm(more), compiler, "trim")[0] == TABLE


def test_a_call_that_broke_off_makes_nothing_stale(gemm, compiler) -> None:
    compiler.findings["codegen/gemm/small@h200"] = (Finding("timeout", "60 s", "call", None),)
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", "wgmma e4m3")]
    assert broken(gemm(), compiler) == []
    assert acted(gemm(), compiler, "trim") == (TABLE, False)
    assert acted(gemm(), compiler, "update") == (TABLE, False)
