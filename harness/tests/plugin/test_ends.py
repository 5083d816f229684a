"""A test in disguise that ends its process, hangs, or wants the run to stop: reported, and the run goes on or stops."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


def test_ends_of_all_kinds_become_reports_with_last_words(pytester, run) -> None:
    pytester.makepyfile(
        """
        import ctypes, os, sys, time
        import pytest
        pytestmark = pytest.mark.machine("b580")

        def test_exit():
            print("words before the exit")
            os._exit(0)

        def test_crash():
            print("words before the crash")
            sys.stdout.flush()
            ctypes.string_at(0)

        @pytest.mark.machine("b580", timeout=1)
        def test_hang():
            print("words before the hang")
            time.sleep(600)

        @pytest.fixture
        def broken():
            os._exit(3)

        def test_setup(broken): pass

        @pytest.fixture
        def broken_later():
            yield
            os._exit(4)

        def test_teardown(broken_later): pass

        @pytest.mark.xfail
        def test_expected():
            os._exit(5)

        def test_fork():
            if os.fork() == 0:
                return
            os.wait()

        def test_good(): pass
        """
    )
    result = run("-v", "--junitxml=out.xml")
    result.assert_outcomes(passed=3, failed=3, errors=2, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_setup[[]b580]*",
            "the test ended its process during setup, with status 3",
            "*ERROR at teardown of test_teardown[[]b580]*",
            "the test ended its process during teardown, with status 4",
            "*test_exit[[]b580]*",
            "the test ended its process during call, with status 0",
            "*:7",
            "*| os._exit(0)",
            "words before the exit",
            "*test_crash[[]b580]*",
            "the test's process crashed during call: SIGSEGV",
            "words before the crash",
            "*stack of the test's process*",
            "*in test_crash",
            "*test_hang[[]b580]*",
            "Timeout: the test was still in its call after 1 s",
            "*| time.sleep(600)",
            "words before the hang",
        ]
    )
    assert "_pytest/runner.py" not in result.stdout.str()
    written = (pytester.path / "out.xml").read_text()
    assert 'failures="3"' in written and 'errors="2"' in written


def test_the_limit_of_pytest_timeout_holds(pytester, run) -> None:
    pytest.importorskip("pytest_timeout")
    pytester.makepyfile(
        """
        import time
        import pytest
        pytestmark = pytest.mark.machine("b580")

        @pytest.mark.timeout(1)
        def test_hang():
            time.sleep(600)

        @pytest.mark.timeout(1, func_only=True)
        def test_hang_in_the_function():
            time.sleep(600)

        def test_good(): pass
        """
    )
    result = run("--timeout", "60")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["Timeout: the test was still in its call after 1 s", "*Failed: Timeout*"])


def test_a_test_may_end_the_run(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.machine("b580")
        def test_it():
            pytest.exit("enough", returncode=7)
        def test_next(): pass
        """
    )
    result = run()
    assert result.ret == 7
    result.stdout.fnmatch_lines(["*Exit: enough*"])


def test_a_test_may_let_the_run_stop(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.machine("b580")
        def test_it(request):
            request.session.shouldstop = "enough of it"
        def test_next(): pass
        """
    )
    result = run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*enough of it*"])


def ended(stat: Path) -> bool:
    """Whether a process is gone or a zombie, soon."""
    for _ in range(50):
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_processes_that_a_test_leaves_end_with_it(pytester, run) -> None:
    pytester.makepyfile(
        """
        import subprocess
        import pytest
        @pytest.mark.machine("b580")
        def test_it():
            open("pid", "w").write(str(subprocess.Popen(["sleep", "600"]).pid))
        """
    )
    run().assert_outcomes(passed=1)
    pid = (pytester.path / "pid").read_text()
    assert ended(Path("/proc") / pid / "stat")


def test_a_failure_does_not_wait_for_the_thread_of_faulthandler_timeout(pytester, run) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.machine('b580', timeout=20)\ndef test_it():\n    assert 1 == 2\n")
    result = run("-o", "faulthandler_timeout=100")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


def test_a_breakpoint_says_what_it_needs(pytester, run) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.machine('b580')\ndef test_it():\n    breakpoint()\n")
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: *run pytest with --pdb or --trace to debug it"])
