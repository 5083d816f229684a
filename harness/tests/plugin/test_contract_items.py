"""Contracts of the configuration as test items, on which pytest's options work as on any test."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree

import pytest

CONFIGURATION = """
    [tool.masquerade]
    machines = ["h100", "mi355x"]
    owners.rocm = ["vendor"]

    [[tool.masquerade.contracts]]
    name = "lazy"
    kind = "imports"
    modules = ["pkg.**"]

    [[tool.masquerade.contracts]]
    name = "answers"
    kind = "calls"
    function = "pkg.good:answer"
    want = 42
"""


@pytest.fixture
def project(pytester):
    """A package with one bad module, a test, and two contracts."""
    pytester.makepyfile(
        **{
            "pkg/__init__": "",
            "pkg/good": "def answer(): return 42",
            "pkg/bad": "print('last words')\nimport vendor",
            "vendor": "",
            "tests/test_it": "def test_it(): pass",
        }
    )
    pytester.makepyprojecttoml(CONFIGURATION)


ALLOW = """
    [[tool.masquerade.contracts.allow]]
    kind = "forbidden-import"
    machine = "cuda"
    module = "pkg.good"
    reason = "was so once"
"""

ALL = [
    "imports/lazy/pkg.bad@h100",
    "imports/lazy/pkg.bad@mi355x",
    "imports/lazy/pkg.good@h100",
    "imports/lazy/pkg.good@mi355x",
    "imports/lazy/whole",
    "calls/answers/pkg.good:answer@h100",
    "calls/answers/pkg.good:answer@mi355x",
    "calls/answers/whole",
]


def names(result: pytest.RunResult) -> list[str]:
    return [line.partition("pyproject.toml::")[2] for line in result.outlines if line.startswith("pyproject.toml::")]


def test_items_have_readable_ids_and_are_listed_without_running(run, project) -> None:
    result = run("--contracts", "--co", "-q", "pyproject.toml")
    assert result.ret == 0
    assert names(result) == ALL


def test_a_broken_check_is_explained(run, project) -> None:
    result = run("--contracts")
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["passed"]) == (1, 8)
    result.stdout.fnmatch_lines(
        [
            "*imports/lazy/pkg.bad@h100*",
            "pkg.bad on h100: forbidden-import",
            "forbidden-import  vendor",
            "  pkg/bad.py:2",
            "    | import vendor",
            "*Captured stdout call*",
            "last words",
            "FAILED pyproject.toml::imports/lazy/pkg.bad@h100*",
        ]
    )


@pytest.mark.parametrize(
    ("ini", "args", "items"),
    [
        ("", (), 1),
        ("", (".",), 1),
        ("", ("--contracts",), 9),
        ("", ("--contracts", "."), 9),
        ("", ("--contracts", "tests"), 9),
        ("", ("pyproject.toml",), 8),
        ("", ("pyproject.toml::imports/lazy/pkg.good@h100",), 1),
        ("true", (), 9),
        ("true", ("tests",), 1),
        ("true", ("tests", "pyproject.toml"), 9),
    ],
)
def test_when_they_are_collected(pytester, run, project, ini, args, items) -> None:
    if ini:
        pytester.makeini(f"[pytest]\nmasquerade_contracts = {ini}")
    told = run("--co", "-q", *args).stdout.str()
    assert told.count("::") == items


def test_the_options_of_pytest_work(pytester, run, project) -> None:
    run("--contracts", "-k", "good and h100").assert_outcomes(passed=2, deselected=7)
    run("--contracts", "-k", "rocm or cuda").assert_outcomes(passed=5, failed=1, deselected=3)
    run("--contracts", "-x", "pyproject.toml").assert_outcomes(failed=1)
    run("--contracts", "--lf").assert_outcomes(failed=1)
    run("pyproject.toml::calls/answers/pkg.good:answer@h100").assert_outcomes(passed=1)
    run("--contracts", "--junitxml=out.xml")
    cases = ElementTree.parse(pytester.path / "out.xml").findall(".//testcase")
    (bad,) = [case for case in cases if case.get("name") == "imports/lazy/pkg.bad@h100"]
    assert "pkg/bad.py:2" in (bad.find("failure").text or "")
    assert len(cases) == 9


def test_xdist_gives_the_same_results(run, project) -> None:
    pytest.importorskip("xdist")
    result = run("--contracts", "-n", "2")
    result.assert_outcomes(passed=8, failed=1)
    result.stdout.fnmatch_lines(["FAILED pyproject.toml::imports/lazy/pkg.bad@h100*"])


def test_with_pytest_forked_and_pytest_timeout(run, project) -> None:
    run("--contracts", "--timeout", "100").assert_outcomes(passed=8, failed=1)
    pytest.importorskip("pytest_forked")
    run("--contracts", "--forked", "-k", "bad or test_it").assert_outcomes(passed=2, failed=1, deselected=6)


def test_the_whole_tells_stale_entries_also_where_only_it_is_run(pytester, run, project) -> None:
    pytester.makepyprojecttoml(CONFIGURATION.replace('modules = ["pkg.**"]', 'modules = ["pkg.**"]\n' + ALLOW))
    result = run("pyproject.toml::imports/lazy/whole")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["pyproject.toml:*: lazy: stale:*"])


def test_a_bad_configuration_is_an_error_of_the_collection(pytester, run, project) -> None:
    pytester.makepyprojecttoml(CONFIGURATION.replace('"imports"', '"import"').replace("pkg.good:answer", "pkg good"))
    result = run("--contracts")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR collecting pyproject.toml*", "pyproject.toml:7: *", "pyproject.toml:13: *"])
    assert "Traceback" not in result.stdout.str()


def test_no_configuration_is_a_usage_error(pytester, run) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = run("--contracts")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--contracts: no masquerade.toml and no*"])


def test_warnings_are_pytests_warnings(pytester, run, project) -> None:
    pytester.makepyfile(**{"pkg/warns": "import os\nos.environ['OMP_NUM_THREADS'] = '7'"})
    result = run("--contracts", "-k", "warns and h100")
    result.assert_outcomes(passed=1, warnings=1, deselected=10)
    result.stdout.fnmatch_lines(["*ContractWarning: env-mutation OMP_NUM_THREADS at pkg/warns.py:2"])


def test_collecting_thousands_of_items_is_quick_and_imports_no_torch(pytester, run, project) -> None:
    package = pytester.path / "many"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for number in range(1250):
        (package / f"m{number}.py").write_text("")
    pytester.makepyprojecttoml(
        """
        [[tool.masquerade.contracts]]
        name = "lazy"
        kind = "imports"
        machines = ["h100", "mi300x", "b580", "spr"]
        modules = ["many.**"]
        """
    )
    pytester.makeconftest(
        """
        import sys
        def pytest_sessionfinish():
            open("loaded", "w").write(" ".join(sys.modules))
        """
    )
    started = time.process_time()
    result = run("--contracts", "--co", "-qq", "pyproject.toml")
    assert time.process_time() - started < 60
    assert result.ret == 0
    loaded = (pytester.path / "loaded").read_text().split()
    assert "masquerade.contracts.runner" in loaded and not {"torch", "numpy", "rich", "click"} & set(loaded)
    result.stdout.fnmatch_lines(["pyproject.toml: 500*"])


def test_stand_ins_are_properties_of_a_test_and_stale_ones_are_warned_of(run, pytester) -> None:
    pytester.makepyfile(**{"pkg/__init__": "", "pkg/_C": "raise ImportError('libcuda')", "pkg/ops": "import pkg._C"})
    pytester.makefile(
        ".toml",
        masquerade="""
        machines = ["h100"]
        stand-ins = ["pkg._C", "ghost._C"]
        [[contracts]]
        name = "lazy"
        kind = "imports"
        modules = ["pkg.ops"]
        """,
    )
    result = run("--contracts", "--junit-xml=out.xml")
    assert result.parseoutcomes()["passed"] == 2
    result.stdout.fnmatch_lines(
        ["*ContractWarning: stale: ghost._C has a stand-in, and there is no package ghost; take*"]
    )
    cases = ElementTree.parse(pytester.path / "out.xml").getroot().iter("testcase")
    told = {
        case.get("name"): [p.get("value") for p in case.iter("property") if p.get("name") == "stand-in"]
        for case in cases
    }
    assert told["imports/lazy/pkg.ops@h100"] == ["pkg._C"]


def test_a_stand_in_that_is_to_be_a_module_which_is_not_there_is_a_mistake(run, pytester) -> None:
    pytester.makepyfile(**{"pkg/__init__": ""})
    pytester.makefile(
        ".toml",
        masquerade="""
        machines = ["h100"]
        stand-ins = { "pkg._C" = "checks.gone" }
        [[contracts]]
        name = "lazy"
        kind = "imports"
        modules = ["pkg"]
        """,
    )
    result = run("--contracts")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*the stand-in of pkg._C: there is no module checks.gone*"])


def test_an_owned_module_that_is_not_there_is_an_error_of_the_collection(run, pytester) -> None:
    pytester.makepyfile(**{"pkg/__init__": "", "pkg/rocm": ""})
    text = (
        "machines = ['h100']\nowners.rocm = ['pkg.rcm']\n[[contracts]]\nname = 'a'\nkind = 'imports'\nmodules = ['pkg']"
    )
    pytester.makefile(".toml", masquerade=text)
    result = run("--contracts")
    assert result.parseoutcomes() == {"errors": 1}
    told = "masquerade.toml:2: owners.rocm[[]0]: there is no module pkg.rcm; did you mean pkg.rocm[?] One that*"
    result.stdout.fnmatch_lines([told])
