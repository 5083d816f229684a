"""One mistake is told once."""

from __future__ import annotations

from dataclasses import replace

from masquerade.report import json_report
from masquerade.report.groups import distinct
from masquerade.report.reading import read
from masquerade.stage.record import Finding, Line


def test_same_kind_thing_and_line_are_one_group_however_many_they_hit(check, results, device_init) -> None:
    longer = replace(device_init, chain=(Line("app.py", 1), *device_init.chain))
    run = results([
        check("badpkg", "h100", longer),
        check("badpkg.cli", "mi300x", device_init),
        check("badpkg.cli", "h100", device_init),
    ])  # fmt: skip
    [group] = distinct(run)
    assert group.subjects == ("badpkg", "badpkg.cli")
    assert group.machines == ("h100", "mi300x")
    assert group.finding.chain == device_init.chain, "the shortest way there is the one to show"


def test_another_line_or_another_probe_is_another_group(check, results, device_init) -> None:
    other_line = replace(device_init, blame=Line("badpkg/_arch.py", 6))
    other_probe = replace(device_init, what="torch.cuda.current_device")
    run = results([check("badpkg", "h100", device_init, other_line, other_probe)])
    assert len(distinct(run)) == 3


def test_without_a_line_the_message_tells_faults_apart(check, results) -> None:
    def crash(message: str) -> Finding:
        return Finding("crash", "SIGSEGV", "import", None, message=message)

    run = results(
        [check("a", "h100", crash("one")), check("b", "h100", crash("one")), check("c", "h100", crash("two"))]
    )
    assert sorted(len(group.places) for group in distinct(run)) == [1, 2]


def test_worst_kind_comes_first_then_what_hits_most(check, results, device_init, import_error) -> None:
    wide = replace(import_error, what="OSError", blame=Line("badpkg/wide.py", 1))
    run = results([check("a", "h100", import_error, wide), check("b", "h100", wide), check("c", "h100", device_init)])
    assert [group.finding.what for group in distinct(run)] == [device_init.what, "OSError", "ModuleNotFoundError"]


def test_an_import_error_of_all_machines_is_alike_and_one_of_three_is_not(
    check, results, machines, import_error
) -> None:
    everywhere = [check("badpkg.old", machine.id, import_error) for machine in machines]
    assert [group.alike for group in distinct(results(everywhere))] == [True]
    spared = [*everywhere[:3], check("badpkg.old", machines[3].id)]
    assert [group.alike for group in distinct(results(spared))] == [False]
    assert [group.alike for group in distinct(results(everywhere[:3]))] == [False], "one check is missing"


def test_a_missing_module_of_a_platform_is_not_alike(check, results, machines, import_error) -> None:
    owned = replace(import_error, missing="aiter")
    run = results([check("badpkg.old", machine.id, owned) for machine in machines])
    assert [group.alike for group in distinct(run)] == [False]
    again = read(json_report.render(run), "a.json")
    assert [group.alike for group in distinct(again)] == [False], "a report that is read back says so, too"


def test_one_machine_cannot_say_alike(check, results, machines, import_error) -> None:
    run = results([check("badpkg.old", "h100", import_error)], machines=machines[:1])
    assert not distinct(run)[0].alike


def test_a_crash_everywhere_is_never_put_aside_as_alike(check, results, machines) -> None:
    crash = Finding("crash", "SIGSEGV", "import", None)
    assert not distinct(results([check("a", machine.id, crash) for machine in machines]))[0].alike


def test_an_import_error_that_a_probe_caused_hangs_under_the_probe(check, results, device_init) -> None:
    raised = Finding("import-error", "AssertionError", "import", device_init.blame, message="not compiled with CUDA")
    run = results([check("badpkg", "h100", device_init), check("badpkg", "b580", device_init, raised)])
    [group] = distinct(run)
    assert [follows.machines for follows in group.consequences] == [("b580",)]


def test_an_error_finds_its_cause_among_several_at_one_line(check, results, device_init) -> None:
    foreign = replace(device_init, kind="forbidden-import", what="vendor")
    raised = Finding("import-error", "AssertionError", "import", device_init.blame)
    run = results([check("badpkg", "mi300x", device_init), check("badpkg", "b580", foreign, raised)])
    assert [(g.finding.kind, len(g.consequences)) for g in distinct(run)] == [
        ("device-init", 0),
        ("forbidden-import", 1),
    ]


def test_an_error_never_hangs_under_a_warning(check, results, device_init) -> None:
    raised = Finding("import-error", "AssertionError", "import", device_init.blame)
    run = results(
        [check("badpkg", "b580", device_init, raised)], levels={"device-init": "warn", "import-error": "error"}
    )
    assert sorted(group.level for group in distinct(run)) == ["error", "warn"]


def test_an_import_error_on_a_machine_without_the_probe_stands_by_itself(check, results, device_init) -> None:
    raised = Finding("import-error", "AssertionError", "import", device_init.blame)
    run = results([check("badpkg", "h100", device_init), check("badpkg", "b580", raised)])
    assert [group.finding.kind for group in distinct(run)] == ["device-init", "import-error"]


def test_what_is_switched_off_is_left_out(check, results, device_init) -> None:
    run = results([check("badpkg", "h100", device_init)], levels={"device-init": "off"})
    assert distinct(run) == []
