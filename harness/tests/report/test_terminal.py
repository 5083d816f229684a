"""The report for people, as it looks without colour at 80 columns."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from textwrap import dedent

from rich.console import Console

from masquerade.report.terminal import show
from masquerade.stage.record import Finding, Line


def printed(run, *, width: int = 80, every: bool = False, **console) -> str:
    out = io.StringIO()
    show(run, Console(file=out, width=width, **console), every=every)
    # The rule is as long as the table, give or take a column by the release of rich.
    return "\n".join(re.sub("─+", "───", line).rstrip() for line in out.getvalue().splitlines()) + "\n"


def test_a_finding_is_told_once_with_its_line_and_the_way_there(check, results, device_init) -> None:
    raised = Finding(
        "import-error", "AssertionError", "import", device_init.blame, message="not compiled with CUDA\nhint"
    )
    run = results([
        check("badpkg.cli", "h100", device_init), check("badpkg.cli", "mi300x", device_init),
        check("badpkg.cli", "b580", device_init, raised), check("badpkg.cli", "epyc-9655", device_init, raised),
        *(check("badpkg.fine", machine) for machine in ("h100", "mi300x", "b580", "epyc-9655")),
    ])  # fmt: skip
    assert printed(run) == dedent("""\
                       cuda         rocm         xpu          cpu
                       h100         mi300x       b580         epyc-9655
        ───
        badpkg.cli     device-init  device-init  device-init  device-init
        1 more module  ok           ok           ok           ok

        device-init  torch.cuda.get_device_capability
          badpkg/_arch.py:5
            | return torch.cuda.get_device_capability() >= (9, 0)
            then AssertionError on b580, epyc-9655: not compiled with CUDA
            on h100, mi300x, b580, epyc-9655
            in badpkg.cli
            by way of
              badpkg/cli.py:1       | from badpkg import registry
              badpkg/registry.py:2  | from badpkg import _arch

        1 finding, 0 warnings in 2 modules on 4 machines: 8 checks in 1.2 s
        """)


def test_a_clean_package_still_has_its_matrix(check, results, machines) -> None:
    run = results([check(name, machine.id) for name in ("pkg.a", "pkg.b") for machine in machines])
    text = printed(run)
    assert "2 modules in all" in text
    assert re.search(r"2 modules in all +ok +ok +ok +ok\n", text)
    assert "0 findings, 0 warnings in 2 modules on 4 machines: 8 checks" in text
    assert re.search(r"pkg\.a +ok +ok +ok +ok\npkg\.b +ok", printed(run, every=True))


def test_import_errors_of_all_machines_are_put_aside(check, results, machines, import_error) -> None:
    run = results([check("badpkg.old", machine.id, import_error) for machine in machines])
    text = printed(run)
    assert (
        "Fails alike on all machines: not a platform's doing\n"
        "  badpkg/old.py:1  ModuleNotFoundError: No module named 'pkg_resources'  (1 module)\n"
    ) in text
    assert not re.search(r"^badpkg\.old ", text, re.M), "no platform is at fault, so it is no row of the matrix"
    assert re.search(r"1 module in all( +0 of 1 ok){4}", text)


def test_warnings_are_one_line_each(check, results) -> None:
    warning = Finding("env-mutation", "PYTHONPATH", "import", Line("badpkg/tl.py", 4, "os.environ[...] = ..."))
    text = printed(results([check("badpkg.tl", "h100", warning)]))
    assert "Warnings\n  env-mutation  PYTHONPATH  badpkg/tl.py:4  (1 module on h100)\n" in text
    assert "0 findings, 1 warning" in text


def test_last_words_are_shown_of_what_was_cut_short(check, results) -> None:
    crash = Finding("crash", "SIGSEGV", "import", None, message="killed by signal 11")
    text = printed(results([check("badpkg", "h100", crash, output="noise\n" * 50 + "about to fall\nfalling\n")]))
    assert "    | about to fall\n    | falling\n" in text
    assert text.count("noise") == 2


def test_the_interpreters_own_stack_is_no_last_word(check, results) -> None:
    late = Finding("timeout", "3 s", "import", None)
    dump = 'waiting\nStack (most recent call first):\n  File "server.py", line 97 in forked\n'
    text = printed(results([check("badpkg", "h100", late, output=dump)]))
    assert "    | waiting\n" in text and "server.py" not in text


def test_a_fault_in_a_call_says_so(check, results, device_init) -> None:
    called = replace(device_init, kind="forbidden-import", what="aiter", phase="call")
    assert "forbidden-import  aiter  (in the call)\n" in printed(results([check("badpkg.moe:run", "h100", called)]))


def test_many_modules_are_counted_and_three_are_named(check, results, device_init) -> None:
    run = results([check(f"pkg.m{index}", "h100", device_init) for index in range(7)])
    assert "in 7 modules: pkg.m0, pkg.m1, pkg.m2 and 4 more\n" in printed(run)


def test_a_long_chain_keeps_its_ends(check, results, device_init) -> None:
    chain = tuple(Line(f"pkg/m{index:02}.py", 1) for index in range(20))
    text = printed(results([check("pkg", "h100", replace(device_init, chain=chain))]))
    assert "pkg/m03.py:1\n      ... 12 links more ...\n      pkg/m16.py:1\n" in text


def test_the_way_on_from_the_blamed_line_is_told_apart_from_the_way_to_it(check, results, device_init) -> None:
    chain = (Line("pkg/a.py", 1), device_init.blame, Line("vendor.py", 4, "init()"))
    text = printed(results([check("pkg", "h100", replace(device_init, chain=chain))]))
    assert "    by way of\n      pkg/a.py:1\n    and on to\n      vendor.py:4  | init()\n" in text


def test_narrow_cells_use_short_names_and_explain_them(check, results, device_init, machines) -> None:
    foreign = replace(device_init, kind="forbidden-import", what="aiter")
    run = results([check("badpkg", machine.id, foreign) for machine in machines])
    narrow, wide = printed(run), printed(run, width=120)
    assert re.search(r"badpkg +import +import +import +import\n", narrow)
    assert "import = forbidden-import" in narrow
    assert re.search(r"badpkg +forbidden-import +forbidden-import", wide)
    assert "import = forbidden-import" not in wide


def test_machines_of_a_platform_that_fare_alike_share_a_column_where_room_is_short(
    check, results, device_init, machines
) -> None:
    many = tuple(replace(machines[0], id=f"h200x8+number{index}") for index in range(12))
    records = [check("badpkg", machine.id, device_init) for machine in many[:-1]]
    matrix = printed(results([*records, check("badpkg", many[-1].id)], machines=many)).partition("device-init  torch")[
        0
    ]
    assert re.search(r"^ +h200x8\+number0 \+10 +h200x8\+number11$", matrix, re.M)
    assert re.search(r"^badpkg +device-init +ok$", matrix, re.M)
    assert "h200x8+number0 +10: h200x8+number0, h200x8+number1, " in matrix
    assert printed(results([*records, check("badpkg", many[-1].id)], machines=many), width=300).count("+10") == 0


def test_what_all_machines_have_is_told_once_where_room_is_short(check, results, device_init, machines) -> None:
    many = tuple(replace(machine, id=f"{machine.id}-bitsandbytes-liger_kernel") for machine in machines)
    run = results([check("badpkg", machine.id, device_init) for machine in many], machines=many)
    matrix = printed(run).partition("device-init  torch")[0]
    assert matrix.startswith("each machine with -bitsandbytes-liger_kernel\n")
    assert re.search(r"^ +h100 +mi300x +b580 +epyc-9655$", matrix, re.M)
    assert "    on h100, mi300x, b580, epyc-9655\n" in printed(run)
    wide = printed(run, width=200)
    assert "    on h100-bitsandbytes-liger_kernel, mi300x-bits" in wide
    assert "each machine" not in wide and re.search(r"^ +h100-bitsandbytes-liger_kernel +mi300x-bits", wide, re.M)


def test_a_warning_names_machines_as_the_matrix_does(check, results, device_init, machines) -> None:
    many = tuple(replace(machine, id=f"{machine.id}-bitsandbytes-liger_kernel") for machine in machines)
    warning = replace(device_init, kind="thread", what="worker")
    run = results([check("badpkg", many[0].id, device_init, warning), check("badpkg", many[1].id)], machines=many)
    assert "(1 module on h100)" in printed(run)
    assert "(1 module on h100-bitsandbytes-liger_kernel)" in printed(run, width=200)


def test_short_names_come_before_shared_columns(check, results, device_init, machines) -> None:
    foreign = replace(device_init, kind="forbidden-import")
    four = tuple(replace(machines[0], id=f"machine{index}") for index in range(4))
    text = printed(results([check("badpkg", machine.id, foreign) for machine in four], machines=four))
    assert re.search(r"badpkg +import +import +import +import\n", text)


def test_more_columns_than_fit_are_shown_in_blocks(check, results, device_init, machines) -> None:
    many = tuple(replace(machines[0], id=f"h200x8+number{index}", platform=f"p{index}") for index in range(12))
    run = results([check("badpkg", machine.id, device_init) for machine in many], machines=many)
    matrix = printed(run).partition("device-init  torch")[0]
    assert all(machine.id in matrix for machine in many)
    assert max(map(len, matrix.splitlines())) <= 80


def test_a_long_module_name_is_never_cut(check, results, device_init) -> None:
    name = "transformers.models.a_long_name_of_a_model.modeling_a_long_name_of_a_model"
    matrix = printed(results([check(name, "h100", device_init)])).partition("device-init  torch")[0]
    assert "".join(line.split()[0] for line in matrix.splitlines()[3:5]) == name


def test_an_interrupted_run_says_how_far_it_came(check, results, machines) -> None:
    text = printed(results([check("pkg.a", "h100")], planned=8, interrupted=True))
    assert "Interrupted: 0 findings, 0 warnings in 1 module on 4 machines: 1 of 8 checks" in text
    assert re.search(r"1 module in all +ok +- +- +-\n", text), "what was not checked is not ok"


def test_remarks_are_told_once(check, results) -> None:
    run = results([check("a", "h100", notes=("stub",)), check("b", "h100", notes=("stub",))], notes=("skipped x",))
    assert printed(run).count("note: stub") == 1
    assert "note: skipped x" in printed(run)


HOSTILE = (
    "x\n::error file=a.py::forged\n::stop-commands::t\r\n[bold red]loud[/] \x1b]8;;http://x\x07\x1b[31m\n--- header\n"
)


def test_a_subject_cannot_speak_to_the_terminal_or_the_ci(check, results) -> None:
    finding = Finding(
        "crash", HOSTILE, "import", Line(HOSTILE, 1, HOSTILE, HOSTILE), (Line(HOSTILE, 2, HOSTILE),), (), HOSTILE
    )
    warning = replace(finding, kind="thread")
    run = results([check(HOSTILE, "h100", finding, warning, output=HOSTILE, notes=(HOSTILE,))], notes=(HOSTILE,))
    for every in (False, True):
        text = printed(run, every=every)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        assert not re.search(r"^\s*(::|---|\+\+\+)", text, re.M)
        assert "##[" not in text
        assert "[bold red]loud[/]" in text, "markup is text"


def test_colour_says_nothing_that_the_words_do_not(check, results, device_init, machines) -> None:
    run = results([check("badpkg", machine.id, device_init) for machine in machines])
    coloured = printed(run, force_terminal=True, color_system="standard")
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).replace(" ", "") == printed(run).replace(" ", "")


def test_an_ascii_terminal_gets_ascii_rules(check, results, device_init) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    show(results([check("badpkg", "h100", device_init)]), Console(file=out, width=80))
    out.flush()
    assert b"\\u2500" not in raw.getvalue()
