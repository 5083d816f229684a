"""Markdown that a subject cannot speak through, read as GitHub and Buildkite read it."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent

import pytest
from pages import read

from masquerade.contracts.golden import Change, Compared, Comparison
from masquerade.report.markdown import document
from masquerade.report.markdown_tables import code
from masquerade.stage.record import Finding, Line

MIB = 1024 * 1024

HOSTILE = [
    "x\n::error file=a.py,line=1::forged\n::stop-commands::t\r\n%0A::set-env name=A::b\n",
    "--- header\n</td><img src=x onerror=alert(1)>\n```\n| a | b |\n\x1b]8;;http://localhost\x07",
    "`` ` ```` <script>alert(1)</script> | **loud** [link](javascript:alert(1)) ![i](http://example.org/i.png)",
    "\\| \\` \\\\| <!-- --> <details> &lt;b&gt; @team #1 :boom: www.example.org http://example.org/ a@example.org $x$",
    " ` ",
    "``",
    "`",
    "|",
    "\\",
    "    ::error::indented",
    "\u202egnp.exe\u2066 \ud800 \ufffe",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("frame", ["{}", "a {} b", "| x | y |\n| --- | --- |\n| {} | end |", "> {}", "- {} `x`"])
def test_a_subjects_text_is_text_wherever_it_stands(text: str, frame: str) -> None:
    page = read(frame.format(code(text)))
    ours = {"p", "code", "table", "thead", "tbody", "tr", "th", "td", "blockquote", "ul", "li"}
    assert {tag for tag, _ in page.tags} <= ours
    assert all(not attributes or set(attributes) == {"style"} for _, attributes in page.tags)
    if "|" in frame:
        assert [tag for tag, _ in page.tags].count("td") == 2, "a cell more or less"
    shown = "".join(page.text.split())
    assert "".join(text.split())[:5].replace("\x1b", r"\x1b") in shown or "\\" in shown


def test_code_is_written_as_people_write_it() -> None:
    assert code("torch.cuda.is_available") == "`torch.cuda.is_available`"
    assert code("a`b") == "<code>a&#96;b</code>"
    assert read(code("a|b\\c`d")).text.strip() == "a|b\\c`d"


def test_the_run_reads_well(check, results, device_init, machines) -> None:
    raised = Finding("import-error", "AssertionError", "import", device_init.blame, message="not compiled\nhint")
    warning = Finding("env-mutation", "PYTHONPATH", "import", Line("badpkg/tl.py", 4))
    run = results([
        check("badpkg.cli", "h100", device_init, warning), check("badpkg.cli", "b580", device_init, raised),
        check("badpkg.fine", "h100"),
    ])  # fmt: skip
    assert document(run, MIB) == dedent("""\
        ### masquerade: 1 finding, 1 warning in 2 modules on 4 machines: 3 checks in 1.2 s

        |  | cuda<br>`h100` | rocm<br>`mi300x` | xpu<br>`b580` | cpu<br>`epyc-9655` |
        | --- | --- | --- | --- | --- |
        | `badpkg.cli` | **device-init** | - | **device-init** | - |
        | 1 more module | ok | - | - | - |

        #### device-init: `torch.cuda.get_device_capability`

        `badpkg/_arch.py:5`

        > `return torch.cuda.get_device_capability() >= (9, 0)`

        - then `AssertionError` on `b580`: `not compiled`
        - on `h100`, `b580`
        - in `badpkg.cli`
        - by way of
            - `badpkg/cli.py:1` `from badpkg import registry`
            - `badpkg/registry.py:2` `from badpkg import _arch`

        <details><summary>Warnings: 1</summary>

        - env-mutation: `PYTHONPATH` `badpkg/tl.py:4` (1 module on 1 machine)

        </details>
        """)


def test_a_hostile_run_is_a_page_of_our_own_elements(check, results) -> None:
    for text in HOSTILE:
        finding = Finding("crash", text, "import", Line(text, 1, text, text), (Line(text, 2, text),), (), text)
        records = [check(text, "h100", finding, replace(finding, kind="thread"), output=text)]
        page = read(document(results(records), MIB))
        assert {tag for tag, _ in page.tags} <= {
            "h3", "h4", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "br", "strong", "em", "blockquote",
            "ul", "li", "details", "summary",
        }  # fmt: skip
        assert [tag for tag, _ in page.tags].count("td") == 5


def test_no_line_is_one_that_a_log_obeys(check, results) -> None:
    for text in HOSTILE:
        finding = Finding("crash", text, "import", Line(text, 1, text, text), (Line(text, 2, text),), (), text)
        out = document(results([check(text, "h100", finding, output=text)]), MIB)
        assert not re.search(r"^\s*(::|---|\+\+\+|~~~|\^\^\^)", out, re.M)
        assert "##[" not in out and not re.search(r"[\x00-\x09\x0b-\x1f]", out)


def test_it_stays_below_its_size_and_says_what_is_missing(check, results, device_init) -> None:
    findings = [replace(device_init, what=f"probe{i}", blame=Line(f"m{i}.py", i, "é" * 200)) for i in range(3000)]
    run = results([check(f"pkg.m{i}", "h100", finding) for i, finding in enumerate(findings)])
    whole, cut = document(run, 10 * MIB), document(run, MIB)
    assert len(whole.encode()) > MIB > len(cut.encode()) > 0.9 * MIB
    [left] = re.findall(r"^(\d+) more sections did not fit; the JSON report has everything\.$", cut, re.M)
    assert cut.count("#### ") + int(left) == 3000
    assert "did not fit" not in whole


def test_a_matrix_of_a_thousand_rows_is_counted(check, results, device_init) -> None:
    run = results([check(f"p{i}.m", "h100", device_init) for i in range(1000)])
    assert "| 901 more rows |" in document(run, MIB)


def test_a_golden_table_tells_its_changes_together(check, results) -> None:
    why = ("aiter: n | x", "triton: next")
    rows = [
        Compared(machine, (Change(machine, "small", "aiter", "triton", why, 4), "ck"))
        for machine in ("mi300x", "mi325x")
    ]
    table = Comparison("gemm", "routes.md", ("small", "large"), tuple(rows), 4)
    told = Finding("route-mismatch", "small: aiter -> triton", "call", None, message="want aiter, got triton")
    other = Finding("route-mismatch", "large: no answer", "call", None, message="None names no backend")
    text = document(results([check("pkg:choose[small]", "mi300x", told, other)], golden=(table,)), MIB)
    assert (
        dedent("""\
        #### route-mismatch: `gemm`

        2 of 4 answers differ from `routes.md`.

        | problem | want | got | on | why |
        | --- | --- | --- | --- | --- |
        | `small` | `aiter` | **`triton`** | `mi300x`, `mi325x` | <code>aiter&#58; n &#124; x</code><br>`triton: next` |
        """)
        in text
    )
    assert "#### route-mismatch: `small: aiter" not in text, "it is told by its table"
    assert "#### route-mismatch: `large: no answer`" in text


def test_a_golden_table_that_holds_is_not_shown(check, results) -> None:
    table = Comparison("gemm", "routes.md", ("small",), (Compared("h100", ("ck",)),), 1)
    assert "routes.md" not in document(results([check("a", "h100")], golden=(table,)), MIB)
