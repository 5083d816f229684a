"""A test in disguise errors where the pytest process has already imported what it is about, and says who did."""

from __future__ import annotations

import pytest

DISGUISED = """
    import pytest
    {top}
    @pytest.mark.machine("mi355x")
    def test_it():
        {body}
"""


@pytest.fixture
def project(pytester):
    """A project of a package, and a stand-in for torch that costs nothing."""
    pytester.makepyfile(**{"torch": "", "lib/pkg/__init__": "", "lib/pkg/kern": "def f(): pass"})
    pytester.syspathinsert(pytester.path / "lib")
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\npythonpath = ["lib", "."]')

    def write(top: str = "", body: str = "pass", **files: str) -> None:
        pytester.makepyfile(test_it=DISGUISED.format(top=top, body=body), **files)

    return write


def test_torch_by_the_tests_own_file(run, project) -> None:
    project("import torch")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["torch was imported by the pytest process*", "  test_it.py:2", "    | import torch", "*within the test*"]
    )


def test_torch_by_another_test_file(run, project) -> None:
    project(test_a="import torch\ndef test_a(): pass")
    result = run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["  test_a.py:1", "    | import torch"])


def test_torch_by_a_conftest_by_way_of_a_helper(run, project) -> None:
    project(conftest="import helper", helper="import os, torch")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["  helper.py:1", "    | import os, torch", "  conftest.py:1", "    | import helper"])


def test_torch_by_nobody_that_can_be_found(run, project) -> None:
    project(conftest="__import__('to' + 'rch')")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no file of this run that can be read imports torch*"])


def test_an_import_within_the_test_is_right(run, project) -> None:
    project(body="import pkg.kern")
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("top", "body"),
    [("import pkg", "import pkg.kern"), ("from pkg.kern import f", "f()"), ("import pkg.kern", "pkg.kern.f()")],
)
def test_the_package_under_test(run, project, top, body) -> None:
    project(top, body)
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["pkg was imported by the pytest process*", "  test_it.py:2", f"    | {top}"])


def test_helpers_beside_the_tests_may_be_loaded(run, project) -> None:
    project("from helper import help", "help()", helper="def help(): pass")
    run().assert_outcomes(passed=1)


def test_packages_that_are_named(pytester, run, project) -> None:
    project(conftest="import pkg")
    run().assert_outcomes(passed=1)
    result = run("-o", "masquerade_packages=pkg other")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["pkg was imported by the pytest process*", "  conftest.py:1"])


def test_a_module_that_a_platform_owns(run, project) -> None:
    project(conftest="import aiter", aiter="")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["aiter was imported by the pytest process*", "  conftest.py:1"])


def test_what_torch_brings_along_has_no_error_of_its_own(pytester, run) -> None:
    pytester.makepyfile(**{
        "torch/__init__": "import cuda.bindings\n", "cuda/bindings/__init__": "", "test_it": """
        import pytest, torch
        @pytest.mark.machine("mi355x")
        def test_it(): pass
        """, "test_other": """
        import pytest, cuda.bindings
        @pytest.mark.machine("mi355x")
        def test_it(): pass
        """})  # fmt: skip
    result = run("test_it.py")
    result.stdout.fnmatch_lines(["torch was imported by the pytest process*"])
    result.stdout.no_fnmatch_line("cuda.bindings was imported*")
    run("test_other.py").stdout.fnmatch_lines(["cuda.bindings was imported by the pytest process*"])
