"""@pytest.mark.machine: one test for each machine, in disguise, with all that users know of a test."""

from __future__ import annotations

import pytest


def test_runs_on_each_machine_with_a_readable_id(pytester, run) -> None:
    pytester.makepyfile(
        """
        import os, pytest

        @pytest.mark.machine("mi355x", "b580", "h200x8")
        @pytest.mark.parametrize("number", [1, 2])
        def test_it(masquerade_machine, number):
            assert os.path.exists("/dev/kfd") == (masquerade_machine.platform == "rocm")
            assert os.path.exists("/dev/nvidia7") == (masquerade_machine.id == "h200x8")

        def test_plain():
            assert not os.path.exists("/dev/kfd")
        """
    )
    result = run("-v")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*::test_it[[]mi355x-1] PASSED*", "*::test_it[[]h200x8-2] PASSED*"])
    run("-k", "b580").assert_outcomes(passed=2, deselected=5)
    told = run("--co", "-q").stdout.str()
    assert told.count("::test_it[") == 6


def test_assertions_output_fixtures_and_properties_are_those_of_any_test(pytester, run) -> None:
    pytester.makeconftest(
        """
        import os, pytest

        @pytest.fixture(scope="module")
        def home():
            print("home set up")
            yield os.getpid()
            print("home torn down")
        """
    )
    pytester.makepyfile(
        """
        import logging, os, sys, warnings
        import pytest

        @pytest.mark.machine("b580")
        class TestIt:
            def test_fails(self, home, tmp_path, record_property):
                record_property("place", "here")
                print("said by the test")
                print("and to stderr", file=sys.stderr)
                logging.getLogger().warning("logged by the test")
                assert home == os.getpid()
                (tmp_path / "file").write_text("x")
                assert [1, 2] == [1, 3]

            def test_warns(self, recwarn, monkeypatch, capsys):
                print("captured")
                assert capsys.readouterr().out == "captured\\n"

        @pytest.mark.machine("b580")
        def test_skips():
            pytest.skip("not today")

        @pytest.mark.machine("b580")
        @pytest.mark.xfail(strict=True)
        def test_expected():
            assert False

        @pytest.mark.machine("b580", "h100", "mi355x")
        def test_old(masquerade_machine):
            warnings.warn(pytest.PytestWarning(f"old thing on {masquerade_machine.id}"))
        """
    )
    result = run("-rs", "--junitxml=out.xml", "-o", "junit_family=xunit1")
    result.assert_outcomes(passed=4, failed=1, skipped=1, xfailed=1, warnings=3)
    result.stdout.fnmatch_lines(
        [
            "*At index 1 diff: 2 != 3*",
            "*Captured stdout setup*",
            "home set up",
            "*Captured stdout call*",
            "said by the test",
            "*Captured stderr call*",
            "and to stderr",
            "*Captured log call*",
            "*logged by the test*",
            "*Captured stdout teardown*",
            "home torn down",
            "*PytestWarning: old thing on h100",
            "*not today",
        ]
    )
    written = (pytester.path / "out.xml").read_text()
    assert '<property name="place" value="here"' in written
    assert 'name="test_fails[b580]"' in written and "said by the test" in written
    assert 'tests="7"' in written and 'failures="1"' in written


def test_fixtures_of_the_pytest_process_live_on(pytester, run) -> None:
    pytester.makeconftest(
        """
        import os, pytest

        def note(text):
            with open("log", "a") as file:
                file.write(f"{text} {os.getpid() == HERE}\\n")

        HERE = os.getpid()

        @pytest.fixture(scope="session")
        def shared():
            note("up")
            yield
            note("down")
        """
    )
    pytester.makepyfile(
        test_a="""
        import pytest
        def test_first(shared): pass
        @pytest.mark.machine("b580")
        def test_disguised(shared): pass
        """,
        test_b="def test_next_module(shared): pass",
    )
    run().assert_outcomes(passed=3)
    assert (pytester.path / "log").read_text() == "up True\ndown True\n"


def test_the_environment_is_the_machines_and_the_marks(pytester, run, monkeypatch) -> None:
    monkeypatch.setenv("GONE", "here")
    pytester.makepyfile(
        """
        import importlib.util, os, pytest

        @pytest.mark.machine("mi355x", env={"MINE": "1", "GONE": None}, present=["aiter"], absent=["attrs"])
        def test_it():
            assert os.environ["MINE"] == "1" and "GONE" not in os.environ
            assert os.environ["ROCM_HOME"]
            assert importlib.util.find_spec("aiter") is not None

        @pytest.mark.machine("mi355x")
        def test_without():
            assert importlib.util.find_spec("aiter") is None and os.environ["GONE"] == "here"

        @pytest.fixture
        def names():
            return [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]

        @pytest.mark.machine("h100")
        def test_packages_do_not_learn_that_they_are_tested(names):
            assert names + [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))] == []
        """
    )
    run().assert_outcomes(passed=3)


def test_a_foreign_module_fails_the_test_with_the_line(pytester, run) -> None:
    pytester.makepyfile(
        vendor="",
        pkg="def go():\n    import vendor\n",
        test_it="""
        import pytest
        pytestmark = pytest.mark.machine("mi355x", "b580", owners={"rocm": ["vendor"]})

        def test_it():
            import pkg
            pkg.go()

        @pytest.mark.xfail(strict=True)
        def test_expected(masquerade_machine):
            import vendor
            assert masquerade_machine.platform != "rocm"

        @pytest.fixture
        def late():
            yield
            import vendor

        def test_after_the_test(late):
            pass
        """,
    )
    result = run("-v")
    result.assert_outcomes(passed=3, failed=1, errors=1, xfailed=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_after_the_test[[]b580]*",
            "*test_it[[]b580] *",
            "on b580: forbidden-import vendor at pkg.py:2",
            "*vendor was executed; it belongs to rocm",
            "  pkg.py:2",
            "*| import vendor",
        ]
    )


def test_a_missing_module_of_a_platform_is_told_as_its(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.machine("b580", owners={"rocm": ["vendor_rocm"]})

        def test_it():
            import vendor_rocm.ops

        @pytest.fixture
        def early():
            import vendor_rocm

        def test_with_a_fixture(early):
            pass

        def test_nobodys():
            import nobodys_module
        """
    )
    result = run("-v")
    result.assert_outcomes(failed=2, errors=1)
    told = 'vendor_rocm belongs to rocm and is not there: present=["vendor_rocm"] shows who executes it'
    assert result.outlines.count(told) == 2
    result.stdout.no_fnmatch_line("*nobodys_module belongs*")


def test_subtests_are_counted_here(pytester, run) -> None:
    if int(pytest.__version__.partition(".")[0]) < 9:
        pytest.skip("this pytest has no subtests")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.machine("b580")
        def test_it(subtests):
            with subtests.test("good"):
                pass
            with subtests.test("bad"):
                assert 1 == 2
        """
    )
    result = run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*bad*", "*assert 1 == 2*"])
    assert result.parseoutcomes()["failed"] == 2


def test_unittest_classes_take_one_machine(pytester, run) -> None:
    pytester.makepyfile(
        """
        import os, pytest, unittest

        @pytest.mark.machine("mi355x")
        class TestIt(unittest.TestCase):
            def test_it(self):
                self.assertTrue(os.path.exists("/dev/kfd"))
                self.assertNotIn("PYTEST_CURRENT_TEST", os.environ)
        """
    )
    run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("machine('mi355')", None),
        ("machine()", "no machine is named*"),
        ("machine('mi355y')", "*mi355y*mi355x*"),
        ("machine('b580', 'b580')", "a machine is named twice"),
        ("machine(580)", "580 is no machine's name"),
        ("machine('b580', owner={})", "no option 'owner'; it takes owners*"),
        ("machine('b580', env=['A'])", "env=['A'] must be a dict*"),
        ("machine('b580', present='aiter')", "present='aiter' must be a list of names"),
    ],
)
def test_a_bad_mark_is_a_usage_error(pytester, run, mark, told) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass")
    result = run()
    if told is None:
        result.assert_outcomes(passed=1)
        return
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = told.replace("['A']", "[[]'A']")
    result.stderr.fnmatch_lines([f"*::test_it: @pytest.mark.machine: {told}"])


def test_the_options_of_pytest_work(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.machine("mi355x", "b580", "h100")
        def test_it(masquerade_machine):
            assert masquerade_machine.id != "b580"
        """
    )
    run("-x").assert_outcomes(passed=1, failed=1)
    run("--lf").assert_outcomes(failed=1)
    run("-m", "machine").assert_outcomes(passed=2, failed=1)
    run("test_the_options_of_pytest_work.py::test_it[h100]").assert_outcomes(passed=1)
    pytest.importorskip("xdist")
    result = run("-n", "2", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*FAILED*::test_it[[]b580]*"])


def test_pytest_forked_does_not_take_the_disguise_away(pytester, run) -> None:
    pytest.importorskip("pytest_forked")
    pytester.makepyfile(
        """
        import os, pytest
        @pytest.mark.machine("mi355x")
        def test_it():
            assert os.path.exists("/dev/kfd")
        @pytest.mark.forked
        def test_forked(): pass
        """
    )
    run("--forked").assert_outcomes(passed=2)
    run().assert_outcomes(passed=2)


def test_torch_answers_as_the_machine(pytester, run) -> None:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.machine("mi355x", "b580")
        def test_devices(masquerade_machine):
            import torch
            if masquerade_machine.platform == "rocm":
                assert torch.cuda.get_device_properties(0).gcnArchName.startswith("gfx950")
                assert torch.version.hip
            else:
                assert torch.xpu.get_device_name(0) == "Intel(R) Arc(TM) B580 Graphics"

        @pytest.mark.machine("b580")
        def test_a_device_of_another_platform():
            import torch
            try:
                torch.empty(1, device="cuda")
            except Exception:
                pass
        """
    )
    result = run()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["on b580: device-init *"])


PACKAGE = {
    "mine/__init__": "",
    "mine/rocm": "",
    "mine/core": "from mine import rocm",
    "test_it": """
    import pytest
    @pytest.mark.machine("mi355x", "b580")
    def test_it():
        import mine.core
""",
}


def test_the_owners_of_the_configuration_count_where_a_mark_names_none(pytester, run) -> None:
    pytester.makepyfile(**PACKAGE)
    run().assert_outcomes(passed=2)
    pytester.makefile(".toml", masquerade="[owners]\nrocm = ['mine.rocm']\n")
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["on b580: forbidden-import mine.rocm at mine/core.py:1"])
    text = pytester.path.joinpath("test_it.py").read_text()
    pytester.path.joinpath("test_it.py").write_text(text.replace('"b580"', '"b580", owners={}'))
    run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ("rocm = ['mine.rcm']", "*.toml:2: owners.rocm[[]0]: there is no module mine.rcm; did you mean mine.rocm?*"),
        ("amd = ['mine.rocm']", "*masquerade.toml:2: owners*amd*"),
    ],
    ids=["misspelt", "no platform"],
)  # fmt: skip
def test_wrong_owners_of_the_configuration_are_wrong_usage(pytester, run, configuration, says) -> None:
    pytester.makepyfile(**PACKAGE)
    pytester.makefile(".toml", masquerade=f"[owners]\n{configuration}\n")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])


@pytest.mark.parametrize(
    ("owners", "says"),
    [
        ({"rocm": ["mine.rcm"]}, "owners[[]'rocm']: there is no module mine.rcm; did you mean mine.rocm?*"),
        ({"amd": ["mine.rocm"]}, "owners: 'amd' is no platform; cuda, rocm, xpu, cpu, any own modules"),
        ({"rocm": "mine.rocm"}, "owners[[]'rocm']='mine.rocm' must be a list of names"),
        ({"rocm": ["mine.rocm", "ghost.rocm", "aiter"]}, None),
    ],
)
def test_owners_of_a_mark_are_of_platforms_and_there(pytester, run, owners, says) -> None:
    named = {**PACKAGE, "test_it": PACKAGE["test_it"].replace('"mi355x", "b580"', f'"mi355x", owners={owners!r}')}
    pytester.makepyfile(**named)
    result = run()
    if says is None:
        result.assert_outcomes(passed=1)
        return
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*::test_it*: @pytest.mark.machine: {says}"])


def test_a_module_below_a_package_that_a_mark_makes_present_is_no_misspelt_owner(pytester, run) -> None:
    pytester.makepyfile(**{"aiter/__init__": ""}, test_it="""
        import pytest
        @pytest.mark.machine("mi355x", present=["aiter"], owners={"rocm": ["aiter.ops"]})
        def test_it():
            import aiter.ops
    """)  # fmt: skip
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["aiter.ops belongs to rocm and is not there: *"])


def test_what_the_configuration_replaces_or_has_present_may_be_owned(pytester, run) -> None:
    pytester.makepyfile(**PACKAGE)
    pytester.makefile(
        ".toml",
        masquerade="stand-ins = ['mine._C']\npresent = ['mine.extra']\n"
        "[owners]\ncuda = ['mine._C.ops']\nxpu = ['mine.extra']\n",
    )
    run().assert_outcomes(passed=2)


def test_what_a_silent_mark_has_present_may_be_owned_by_the_configuration(pytester, run) -> None:
    pytester.makepyfile(**{"aiter/__init__": ""}, test_it="""
        import pytest
        @pytest.mark.machine("mi355x", present=["aiter"])
        def test_it(): pass
    """)  # fmt: skip
    pytester.makefile(".toml", masquerade="[owners]\nrocm = ['aiter.ops']\n")
    run().assert_outcomes(passed=1)


def test_a_mark_that_a_hook_sets_late_has_the_owners_too(pytester, run) -> None:
    pytester.makepyfile(**{**PACKAGE, "test_it": "def test_it():\n    import mine.core\n"})
    pytester.makeconftest(
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.machine("b580"))
        """
    )
    pytester.makefile(".toml", masquerade="[owners]\nrocm = ['mine.rocm']\n")
    run().assert_outcomes(failed=1)


def test_the_configuration_that_is_nearest_to_a_test_counts(pytester, run) -> None:
    pytester.makepyfile(**PACKAGE)
    pytester.makefile(".toml", masquerade="[owners]\nrocm = ['mine.rocm']\n")
    inner = pytester.mkdir("inner")
    (inner / "test_inner.py").write_text(PACKAGE["test_it"].replace("    import", "import").replace("    @", "@")
                                         .replace("    def", "def"))  # fmt: skip
    run("-p", "no:cacheprovider").assert_outcomes(passed=2, failed=2)
    (inner / "masquerade.toml").write_text("[owners]\nany = ['mine.rocm']\n")
    run("-p", "no:cacheprovider").assert_outcomes(passed=3, failed=1)


@pytest.mark.parametrize(
    ("mark", "configuration", "says"),
    [
        ('"mi355x", "b581"', "", "*@pytest.mark.machine: *b581*"),
        ('"mi355x", owners={"rocm": ["mine.rcm"]}', "", "*@pytest.mark.machine: owners*there is no module mine.rcm*"),
        ('"mi355x"', "[owners]\nrocm = ['mine.rcm']\n", "*masquerade.toml:2: owners.rocm*there is no module mine.rcm*"),
    ],
)
def test_a_mistake_is_told_by_workers_too(pytester, run, mark, configuration, says) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(**{**PACKAGE, "test_it": PACKAGE["test_it"].replace('"mi355x", "b580"', mark)},
                        test_other="def test_other(): pass")  # fmt: skip
    if configuration:
        pytester.makefile(".toml", masquerade=configuration)
    result = run("-n", "2")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([says])
