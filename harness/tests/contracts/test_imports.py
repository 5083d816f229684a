"""Contracts on imports: which modules are chosen, what is allowed, and what is stale."""

from __future__ import annotations

import dataclasses

import pytest
from contracts.conftest import PROBE

from masquerade.contracts import ConfigurationError, collect, finish, run

TEXT = """
    machines = ["h100", "mi300x"]
    [[contracts]]
    name = "lazy"
    kind = "imports"
    modules = {modules}
    exclude = {exclude}
    {more}
"""


def contract(project, modules="['pkg']", exclude="[]", more=""):
    return project(TEXT.format(modules=modules, exclude=exclude, more=more))


@pytest.mark.parametrize(
    "modules, exclude, chosen",
    [
        ("['pkg.ops']", "[]", ["pkg.ops", "pkg.ops.moe", "pkg.ops.moe.big"]),
        ("['pkg.ops.*', 'pkg.ops.moe']", "[]", ["pkg.ops.moe", "pkg.ops.moe.big"]),
        ("['pkg']", "['pkg.tests', '**.big']", ["pkg", "pkg.kern", "pkg.ops", "pkg.ops.moe"]),
    ],
)
def test_modules_are_chosen_once(project, stage, modules, exclude, chosen) -> None:
    cases = collect(contract(project, modules, exclude).contracts, stage.discover)
    assert [case.id for case in cases] == [f"imports/lazy/{m}@{on}" for m in chosen for on in ("h100", "mi300x")]
    assert [case.check.id for case in cases] == [case.id for case in cases]
    assert {(case.contract, case.kind, case.file, case.line) for case in cases} == {
        ("lazy", "imports", "masquerade.toml", 3)
    }


def test_every_pattern_that_selects_nothing_is_a_mistake_of_the_configuration(project, stage) -> None:
    configuration = contract(project, "['pkg.nothing.*', 'pkg.kern.*', 'other']")
    with pytest.raises(ConfigurationError) as caught:
        collect(configuration.contracts, stage.discover)
    assert [str(problem).partition(": lazy.")[2] for problem in caught.value.problems] == [
        "modules[0]: there is no module pkg.nothing; did you mean pkg?",
        "modules[1]: 'pkg.kern.*' matches no module of pkg.kern",
        "modules[2]: there is no module other; did you mean pkg?",
    ]


def test_a_pattern_that_excludes_nothing_is_a_mistake(project, stage) -> None:
    configuration = contract(project, "['pkg.ops']", "['pkg.ops.moee', '**.big', 'pkg.tests']")
    with pytest.raises(ConfigurationError) as caught:
        collect(configuration.contracts, stage.discover)
    first, second = (str(problem).partition(": lazy.")[2] for problem in caught.value.problems)
    assert first.startswith("exclude[0]: 'pkg.ops.moee' matches none of the modules; did you mean pkg.ops.moe")
    assert second.startswith("exclude[2]: 'pkg.tests' matches none of the modules")


def test_excluding_everything_is_a_mistake(project, stage) -> None:
    with pytest.raises(ConfigurationError, match=r"masquerade.toml:7: lazy.exclude: it leaves out every module"):
        collect(contract(project, exclude="['pkg']").contracts, stage.discover)


ALLOW = """
    [[contracts.allow]]
    module = "{module}"
    machine = "{machine}"
    kind = "{kind}"
    what = "{what}"
    reason = "waits for the driver"
"""


@pytest.mark.parametrize(
    "module, machine, kind, what, matches",
    [
        ("pkg.kern", "h100", "device-init", "torch.cuda.x", True),
        ("pkg.kern", "cuda", "device-init", "torch.*", True),
        ("pkg.*", "h*", "device-init", "*", True),
        ("pkg.ops", "h100", "device-init", "*", False),
        ("pkg.kern", "rocm", "device-init", "*", False),
        ("pkg.kern", "h100", "fork-poison", "*", False),
        ("pkg.kern", "h100", "device-init", "torch.xpu.*", False),
    ],
)
def test_an_entry_excuses_what_it_names_and_is_stale_otherwise(
    project, stage, module, machine, kind, what, matches
) -> None:
    configuration = contract(project, more=ALLOW.format(module=module, machine=machine, kind=kind, what=what))
    stage.findings = {"imports/lazy/pkg.kern@h100": (PROBE,)}
    cases = collect(configuration.contracts, stage.discover)
    pairs = list(run(configuration, stage, cases))
    [record] = [record for case, record in pairs if case.id == "imports/lazy/pkg.kern@h100"]
    assert (record.verdict == "ok", record.failed, record.allowed == (PROBE,)) == (matches, not matches, matches)
    broken = finish(cases, pairs)
    if matches:
        assert broken == () and any("waits for the driver" in note for note in record.notes)
    else:
        [row] = broken
        assert (row.contract, row.file, row.line) == ("lazy", "masquerade.toml", 9)
        assert row.message.startswith("stale: nothing is left of the allowed")


def test_the_line_to_blame_is_allowed_for_all_that_import_it(project, stage) -> None:
    configuration = contract(
        project, more=ALLOW.format(module="pkg.kern", machine="cuda", kind="device-init", what="*")
    )
    stage.findings = {"imports/lazy/pkg.ops@h100": (PROBE,), "imports/lazy/pkg@h100": (PROBE,)}
    pairs = list(run(configuration, stage))
    assert {record.verdict for _, record in pairs} == {"ok"}


def test_a_part_of_the_cases_shows_nothing_stale(project, stage) -> None:
    configuration = contract(project, more=ALLOW.format(module="pkg", machine="cuda", kind="device-init", what="*"))
    cases = collect(configuration.contracts, stage.discover)
    assert finish(cases, list(run(configuration, stage, cases[1:]))) == ()
    assert len(finish(cases, list(run(configuration, stage, cases)))) == 1


def test_levels_are_the_contracts_own(project, stage) -> None:
    stage.findings = {"pkg.kern": (PROBE, dataclasses.replace(PROBE, kind="thread"))}
    warned = list(run(contract(project, more='levels = {device-init = "warn", thread = "off"}'), stage))
    kinds = {
        (record.verdict, record.failed, len(record.findings)) for c, record in warned if c.check.subject == "pkg.kern"
    }
    assert kinds == {("device-init", False, 1)}


def test_nothing_checked_is_no_pass(project) -> None:
    [broken] = contract(project).contracts[0].finish([])
    assert "checks nothing" in broken.message


def test_an_entry_for_a_machine_that_is_not_checked_is_a_mistake(mistakes) -> None:
    allow = ALLOW.format(module="pkg", machine="b580", kind="thread", what="*")
    [told] = mistakes(TEXT.format(modules="['pkg']", exclude="[]", more=allow))
    assert (
        told == "masquerade.toml:11: lazy.allow[0].machine: 'b580' is no machine of this contract; known: h100, mi300x"
    )
