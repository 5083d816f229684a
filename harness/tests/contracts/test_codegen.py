"""Contracts on code generation: rows, instructions, requirements, expected errors, and mistakes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contracts.compilers import NATIVE, TABLE, TEXT, acted, broken, launch, plain, told
from contracts.conftest import PLACE

from masquerade.contracts import collect, run
from masquerade.stage import Finding, Line

# -- a table that holds ------------------------------------------------------------------------------------------------


def test_the_right_table_passes_and_the_calls_are_those_that_were_asked_for(gemm, compiler) -> None:
    configuration = gemm(more='factory = "pkg.args:make"\n    first = ["pkg.kernels"]')
    assert told(configuration, compiler) == {}
    assert broken(configuration, compiler) == []
    small, *_, large = compiler.checks[:4]
    assert (small.id, small.subject) == ("codegen/gemm/small@h200", "pkg.gemm:launch")
    assert (small.args, small.env, small.factory, small.timeout) == ((16,), {"A": "1"}, "pkg.args:make", 60)
    assert small.first == large.first == ("pkg.kernels",)
    assert (large.args, large.env, large.factory) == ((1024,), {}, "pkg.other:make")


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"registers": 110}, ""),
        ({"registers": 89}, "_gemm of small on h200 (sm_90) has registers 89, and had 100 (gemm.3.9.0.md:7)"),
        ({"shared": 32768 + 3276}, ""),
        ({"shared": 40000}, "_gemm of small on h200 (sm_90) has shared 40000, and had 32768 (gemm.3.9.0.md:7)"),
        ({"spills": 1}, "_gemm of small on h200 (sm_90) has spills 1, and had 0 (gemm.3.9.0.md:7)"),
    ],
)
def test_numbers_may_move_a_little_and_spills_may_not_begin(gemm, compiler, facts, says) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", "wgmma e4m3", **facts), plain("h200")[1]]
    found = told(gemm(), compiler)
    assert [message for _, message in found.get("small@h200", [])] == ([says] if says else [])


def test_few_registers_may_move_by_a_portion_and_a_tolerance_is_the_contracts_own(gemm, compiler) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [plain("h200")[0], launch("_sum", shared=512, registers=28)]
    assert told(gemm(), compiler) == {}
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", "wgmma e4m3", registers=140), plain("h200")[1]]
    assert told(gemm(more="tolerance = 0.4"), compiler) == {}


# -- instructions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "family", "says"),
    [
        ("h200", ["wgmma bf16"], "sm_90 lost native fp8 matrix instructions: _gemm has wgmma bf16, and had wgmma e4m3"),
        ("h200", [], "sm_90 lost matrix instructions: _gemm has none, and had wgmma e4m3"),
        (
            "mi355x",
            ["mfma bf16"],
            "gfx950 lost block-scaled matrix instructions and native fp4 matrix instructions: "
            "_gemm has mfma bf16, and had mfma block-scaled e2m1",
        ),
        (
            "h200",
            ["tcgen05 mxf8f6f4 block-scaled"],
            "sm_90 gained block-scaled matrix instructions: "
            "_gemm has tcgen05 mxf8f6f4 block-scaled, and had wgmma e4m3",
        ),
        ("h200", ["mma.sync e4m3"], "sm_90: _gemm has mma.sync e4m3, and had wgmma e4m3"),
    ],
)
def test_another_instruction_is_one_sentence_on_the_line_of_the_kernel(gemm, compiler, machine, family, says) -> None:
    compiler.launches[f"codegen/gemm/small@{machine}"] = [launch("_gemm", *family), plain(machine)[1]]
    native = (
        'requires = ["uses matrix instructions"]\n    requires_on = { sm_90 = ["uses native fp8 matrix instructions"] }'
    )
    configuration = gemm(more=native)
    [case] = [case for case in collect(configuration.contracts, compiler.discover) if f"small@{machine}" in case.id]
    [finding] = case.judge(compiler.record(case.check)).findings  # a broken requirement is not told once more
    line = 7 if machine == "h200" else 8
    assert finding.message == f"{says} (gemm.3.9.0.md:{line})"
    assert finding.what == f"instructions: {NATIVE[machine]} -> {', '.join(family) or 'none'}"
    assert (finding.kind, finding.blame) == ("call-mismatch", Line("pkg/gemm.py", 7))


@pytest.mark.parametrize(
    ("more", "facts", "families", "want"),
    [
        ('requires = ["no spills"]', {"spills": 12}, ["wgmma e4m3"],
         ("no spills: _gemm", "sm_90 runs out of registers: _gemm spills 12 words")),
        ('requires = ["uses native fp8 matrix instructions"]', {}, ["wgmma bf16"],
         ("uses native fp8 matrix instructions: _gemm",
          "sm_90 does not use native fp8 matrix instructions: _gemm has wgmma bf16")),
        ('requires_on = { cuda = ["uses native fp4 matrix instructions"] }', {}, ["wgmma e4m3"],
         ("uses native fp4 matrix instructions: _gemm",
          "sm_90 does not use native fp4 matrix instructions: _gemm has wgmma e4m3")),
        ('requires_on = { "small@h200" = ["uses block-scaled matrix instructions"] }', {}, [],
         ("uses block-scaled matrix instructions: _gemm",
          "sm_90 does not use block-scaled matrix instructions: _gemm has none")),
        ('requires = ["fits"]', {"pruned": "it needs 3 of shared memory, and the limit is 2"}, [],
         ("fits: _gemm", "sm_90 has no room for _gemm: it needs 3 of shared memory, and the limit is 2")),
        ('requires_on = { "large@h200" = ["no spills"], rocm = ["no spills"] }', {"spills": 12}, ["wgmma e4m3"], None),
        ('requires = ["no spills"]', {"spills": 0}, [], None),
        ('requires = ["uses 2D block io"]', {}, ["dpas bf16"],
         ("uses 2D block io: _gemm", "sm_90 does not use 2D block io: _gemm has dpas bf16")),
        ('requires = ["uses 2D block io", "uses matrix instructions"]', {}, ["2D block io", "dpas bf16"], None),
        ('requires = ["uses matrix instructions"]', {}, ["2D block io"],
         ("uses matrix instructions: _gemm", "sm_90 does not use matrix instructions: _gemm has 2D block io")),
        ('requires = ["uses matrix instructions"]', {}, ["unknown"],
         ("uses matrix instructions: _gemm", "sm_90 does not use matrix instructions: _gemm has unknown")),
    ],
)  # fmt: skip
def test_a_broken_requirement_is_one_sentence(gemm, compiler, more, facts, families, want) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", *families, **facts)]
    assert told(gemm(None, more), compiler).get("small@h200", []) == ([want] if want else [])


def test_what_a_driver_does_not_tell_is_unknown_and_breaks_nothing(gemm, compiler) -> None:
    silent = launch("_gemm", "wgmma e4m3")
    del silent["registers"], silent["spills"]
    compiler.launches["codegen/gemm/small@h200"] = [silent]
    configuration = gemm(None, 'requires = ["no spills"]')
    assert told(configuration, compiler) == {}
    assert "| wgmma e4m3             | 32768  | unknown   | unknown |" in acted(configuration, compiler, "create")[0]


# -- errors and nothing ------------------------------------------------------------------------------------------------

REFUSED = Finding("compile-error", "_gemm", "call", PLACE, message="type fp8e4nv not supported in this architecture")
EXPECT = 'expect_error = { "small@sm_90" = { message = "fp8e4nv not", reason = "no fp8 here" } }'


def test_an_expected_error_is_asserted_and_has_a_row_with_its_reason(gemm, compiler) -> None:
    compiler.findings["codegen/gemm/small@h200"] = (REFUSED,)
    compiler.launches["codegen/gemm/small@h200"] = []
    configuration = gemm(None, EXPECT)
    assert told(configuration, compiler) == {}
    text, _ = acted(configuration, compiler, "create")
    assert (
        "| small         | _gemm  | h200    | sm_90  | !compile-error         | -      | -         | -      |" in text
    )
    [contract] = gemm(None, EXPECT).contracts
    _, reasons = contract.tables["3.9.0"]
    assert reasons["small _gemm h200 sm_90"]["instructions"].reason == "no fp8 here"
    assert told(gemm(None, EXPECT), compiler) == {}
    assert broken(gemm(None, EXPECT), compiler) == []


@pytest.mark.parametrize(
    ("findings", "says"),
    [
        ((), "want an error like 'fp8e4nv not', got none: take expect_error out, or mend its place"),
        (
            (replace(REFUSED, message="bad layout"),),
            "want an error like 'fp8e4nv not', got 'bad layout'",
        ),
    ],
)
def test_an_expected_error_that_does_not_come_is_a_finding(gemm, compiler, findings, says) -> None:
    compiler.findings["codegen/gemm/small@h200"] = findings
    assert ("expect_error", says) in told(gemm(None, EXPECT), compiler)["small@h200"]


def test_an_error_that_nobody_expects_stays_a_finding(gemm, compiler) -> None:
    compiler.findings["codegen/gemm/small@h200"] = (REFUSED,)
    compiler.answers["codegen/gemm/large@h200"] = ValueError("bad K")
    found = told(gemm(), compiler)
    assert found == {"small@h200": [("_gemm", REFUSED.message)], "large@h200": [("ValueError", "bad K")]}


def test_nothing_launched_is_a_finding_unless_it_is_said(gemm, compiler) -> None:
    compiler.launches["codegen/gemm/small@h200"] = []
    says = "pkg.gemm:launch launched no kernel on h200; if that is right, say why in no_launch"
    assert told(gemm(None), compiler) == {"small@h200": [("no launch", says)]}
    said = 'no_launch = { "small@cuda" = "torch does it" }'
    assert told(gemm(None, said), compiler) == {}
    assert "| small         | -      | h200    | sm_90  | no launch " in acted(gemm(None, said), compiler, "create")[0]
    assert told(gemm(None, 'no_launch = { gfx950 = "torch does it" }'), compiler)["large@mi355x"] == [
        ("no_launch", "pkg.gemm:launch launches kernels on mi355x: take no_launch out, or mend its place")
    ]


def test_what_is_left_out_is_not_run_and_has_a_row(gemm, compiler) -> None:
    configuration = gemm(more='left_out = { "small@mi355x" = "takes 80 s" }')
    assert [case.id for case in collect(configuration.contracts, compiler.discover)][:2] == [
        "codegen/gemm/small@h200", "codegen/gemm/large@h200",
    ]  # fmt: skip
    row = "row small - mi355x gfx950: want ?, got left out; `masquerade check --golden create` writes it"
    stale = [line for line in broken(configuration, compiler) if "stale" in line]
    assert broken(configuration, compiler)[0] == f"masquerade.toml:2: gemm: {row}"
    assert len(stale) == 2 and "gemm.3.9.0.md:8: gemm: stale: row small _gemm mi355x gfx950 no longer runs" in stale[0]
    acted(configuration, compiler, "create")
    acted(gemm(None, 'left_out = { "small@mi355x" = "takes 80 s" }'), compiler, "trim")
    assert broken(gemm(None, 'left_out = { "small@mi355x" = "takes 80 s" }'), compiler) == []


# -- rows and mistakes -------------------------------------------------------------------------------------------------


def test_a_kernel_that_is_compiled_twice_has_two_rows(gemm, compiler) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", "wgmma e4m3"), launch("_gemm", "wgmma bf16")]
    configuration = gemm(None, 'requires = ["uses native fp8 matrix instructions"]')
    assert told(configuration, compiler)["small@h200"] == [
        ("uses native fp8 matrix instructions: _gemm.2",
         "sm_90 does not use native fp8 matrix instructions: _gemm.2 has wgmma bf16")
    ]  # fmt: skip
    assert "| small         | _gemm.2 | h200    | sm_90  | wgmma bf16 " in acted(configuration, compiler, "create")[0]


def test_a_row_that_the_table_lacks_is_told_once(gemm, compiler) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [*plain("h200"), launch("_new", "wgmma e4m3")]
    assert told(gemm(), compiler) == {
        "small@h200": [
            (
                "instructions: ? -> wgmma e4m3",
                "_new of small on h200 (sm_90) has no row yet: it has wgmma e4m3 (gemm.3.9.0.md)",
            )
        ]
    }


def test_the_comparison_of_a_run_holds_all_rows_with_their_sentences(gemm, compiler) -> None:
    compiler.launches["codegen/gemm/small@h200"] = [launch("_gemm", "wgmma bf16"), plain("h200")[1]]
    configuration = gemm()
    pairs = list(run(configuration, compiler))
    comparison = pairs[0][0].owner.compared(pairs)
    assert (comparison.kind, comparison.answers, len(comparison.rows)) == ("call-mismatch", 32, 8)
    [change] = comparison.changes
    assert change.why == ("sm_90 lost native fp8 matrix instructions: _gemm has wgmma bf16, and had wgmma e4m3",)
    assert comparison.rows[0].source == "PR 1"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('requires = ["no spill"]', "'no spill' is not known here; did you mean no spills?"),
        (
            'requires_on = { sm_89 = ["fits"] }',
            "'sm_89' is no machine, arch or platform of this contract",
        ),
        ('no_launch = { "smal@h200" = "x" }', "'smal' is no configuration of this contract; did you mean small?"),
        ('expect_error = { h200 = { message = "(", reason = "x" } }', "'(' is no regular expression"),
        ('expect_error = { h200 = { message = "x" } }', "reason is missing: Why there is no kernel."),
    ],
)
def test_mistakes_are_told_with_their_line(gemm, mistakes, more, says) -> None:
    assert any(says in line and line.startswith("masquerade.toml:") for line in mistakes(TEXT.format(more=more)))


def test_a_golden_file_must_name_the_release_and_be_a_table_of_these_columns(mistakes, tmp_path) -> None:
    [line] = mistakes(TEXT.format(more="").replace("gemm.{triton}.md", "gemm.md"))
    assert "'gemm.md' must have {triton} once in the file's name: each release has a table of its own" in line
    (tmp_path / "gemm.3.9.0.md").write_text(TABLE.replace("kernel ", "kernels"))
    assert "the first columns must be configuration, kernel, machine, arch and the last one 'source'" in "".join(
        mistakes(TEXT.format(more=""))
    )
