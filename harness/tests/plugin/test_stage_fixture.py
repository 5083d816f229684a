"""The fixture `stage`: one fork server for a session, started when it is first asked, ended with the session."""

from __future__ import annotations

import os
import re
import time

import pytest

SERVERS = """
    import os
    def servers():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = open(f"/proc/{pid}/cmdline").read()
                parent = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if "masquerade.stage.server" in line and int(parent) == os.getpid():
                found.append(pid)
        return found
"""


def gone(pid: str) -> bool:
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def project(pytester) -> None:
    pytester.makepyfile(
        helper=SERVERS,
        subject="import os\ndef answer(): return os.path.exists('/dev/kfd')",
        test_it="""
            from helper import servers

            def test_nothing_runs_yet(stage):
                assert servers() == []

            def test_answers(stage):
                assert stage.run("subject:answer", on="mi300x", path=["."]).result is True

            def test_the_same_server(stage):
                assert stage.run("subject:answer", on="h100", path=["."]).result is False
                (one,) = servers()
                print("server", one)
        """,
    )


def test_starts_late_is_shared_and_ends(pytester, run, project) -> None:
    result = run("-s")
    result.assert_outcomes(passed=3)
    (pid,) = re.findall(r"server (\d+)", result.stdout.str())
    assert gone(pid)


def test_each_worker_has_its_own(pytester, run) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(
        helper=SERVERS,
        subject="def answer(): return 1",
        test_it="""
            import pytest, time
            from helper import servers

            @pytest.mark.parametrize("number", range(2))
            def test_answers(stage, number, worker_id):
                assert stage.run("subject:answer", on="cpu", path=["."]).result == 1
                open(f"{worker_id}-{number}", "w").write(" ".join(servers()))
                time.sleep(1)
        """,
    )
    run("-n", "2").assert_outcomes(passed=2)
    pids = {file.name: file.read_text().split() for file in pytester.path.glob("gw*")}
    assert {name[:3] for name in pids} == {"gw0", "gw1"}
    assert [len(found) for found in pids.values()] == [1, 1]
    assert all(gone(pid) for found in pids.values() for pid in found)


def test_the_stage_finds_what_pytest_finds(pytester: pytest.Pytester, run) -> None:
    pytester.makeini("[pytest]\npythonpath = src\n")
    pytester.mkdir("src").joinpath("inside.py").write_text("def answer(): return 5\n")
    pytester.makepyfile(
        """
        from masquerade.testing import ensure_lazy

        def test_stage(stage):
            assert stage.run("inside:answer", on="b580").result == 5

        def test_lazy():
            ensure_lazy("inside", machine="b580")
        """
    )
    run().assert_outcomes(passed=2)
