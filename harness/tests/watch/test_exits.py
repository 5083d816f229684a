"""What happens in exit functions: who is blamed, and in which phase it is judged."""

from __future__ import annotations

import pytest
from cases import told

from conftest import PYTHON, Run, write
from masquerade.stage import Stage

LATER = """\
import atexit
import torch

def setup():
    atexit.register(torch.cuda.synchronize)
    return list(torch.empty(2, device="cuda").shape)
"""


def test_the_line_that_registered_it_is_blamed(run: Run) -> None:
    record = run("import atexit, torch\n\natexit.register(torch.cuda.synchronize)\n", on="cuda")
    [finding] = record.findings
    assert (finding.kind, finding.phase) == ("device-init", "import"), told(record)
    assert finding.what == "torch.cuda.synchronize"
    assert finding.blame is not None and (finding.blame.file, finding.blame.line) == ("subject.py", 3)


def test_code_of_the_subjects_own_is_blamed_itself(run: Run) -> None:
    record = run("import atexit, torch\n@atexit.register\ndef end():\n    torch.cuda.synchronize()\n", on="cuda")
    assert record.worst is not None and record.worst.blame is not None
    assert record.worst.blame.line == 4, told(record)


def test_one_that_is_taken_back_does_not_run(run: Run) -> None:
    source = "import atexit, torch\nend = torch.cuda.synchronize\natexit.register(end)\natexit.unregister(end)\n"
    assert run(source, on="cuda").verdict == "ok"


@pytest.mark.parametrize(("machine", "verdict"), [("cuda", "ok"), ("xpu", "device-init")])
def test_after_a_call_it_is_judged_as_the_call(run: Run, machine: str, verdict: str) -> None:
    record = run(LATER.replace('torch.empty(2, device="cuda").shape', "(2,)"), "subject:setup", on=machine)
    assert record.verdict == verdict, told(record)


PASSES = """\
import atexit

said = []

def f():
    kept = atexit.register(said.append, 3)
    atexit.register(lambda **words: said.append(words), func=1)
    atexit._run_exitfuncs()
    return [kept == said.append, said]
"""


def test_arguments_and_results_pass(run: Run) -> None:
    assert run(PASSES, "subject:f").result == [True, [{"func": 1}, 3]]


FINALIZER = """\
import weakref
import torch

class Held: pass

def probe():
    torch.cuda.synchronize()

HELD = Held()
KEPT = weakref.finalize(HELD, probe)
"""


@pytest.mark.parametrize("isolation", ["fork", "fresh"])
@pytest.mark.parametrize("before", [0, 2], ids=["bare", "dressed"])
def test_a_finalizer_runs_at_the_end_though_torch_has_some_already(tmp_path, isolation: str, before: int) -> None:
    write(tmp_path, {"subject.py": FINALIZER, "files.py": "import tempfile\nHELD = tempfile.TemporaryDirectory()\n"})
    (tmp_path / "tmp").mkdir()
    with Stage(PYTHON, isolation=isolation) as stage:
        assert [stage.run("json", on="cuda").verdict for _ in range(before)] == ["ok"] * before
        record = stage.run("subject", on="cuda", path=[tmp_path])
        assert record.worst is not None and record.worst.blame is not None, told(record)
        assert (record.verdict, record.worst.blame.line) == ("device-init", 7), told(record)
        assert stage.run("files", on="cuda", path=[tmp_path], env={"TMPDIR": str(tmp_path / "tmp")}).verdict == "ok"
    assert list((tmp_path / "tmp").iterdir()) == []
