"""The recorder: reads its list, gives each probe a process, ends those that hang, and keeps no personal data."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .recorder import plain, probes, steps
from .replay import HERE

PYTHON = os.environ.get("MASQUERADE_TEST_PYTHON", sys.executable)


def read(tmp_path: Path, text: str) -> list[probes.Probe]:
    file = tmp_path / "probes.txt"
    file.write_text(text)
    return probes.load(file)


def test_a_line_is_a_probe(tmp_path) -> None:
    one, two, three = read(
        tmp_path,
        "# why\n[first]\n1 + 1 ;; 2 | 3\n[second] cuda rocm\nA_B='x y' C= | f()\nfresh GPU={uuid},{uuid:8} | g()\n",
    )
    assert (one.group, one.platforms, one.steps, one.env) == ("first", probes.PLATFORMS, ("1 + 1", "2 | 3"), {})
    assert (two.group, two.platforms, two.steps) == ("second", ("cuda", "rocm"), ("f()",))
    assert (two.env, two.fresh, three.fresh) == ({"A_B": "x y", "C": ""}, False, True)
    assert three.environment("GPU-0123456789ab") == {"GPU": "GPU-0123456789ab,GPU-01234567"}
    assert three.environment(None) is None and two.environment(None) == two.env


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[g]\nf()\nf()\n", "probes.txt:3: 'f()' is in the list twice"),
        ("[g] cuda hip\n", "probes.txt:1: 'hip' is no platform"),
        ("f()\n", "probes.txt:1: a probe before the first [group]"),
    ],
)
def test_a_line_that_is_none_is_told(tmp_path, text: str, said: str) -> None:
    with pytest.raises(probes.ProbeError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)


def test_what_names_a_card_a_host_or_a_moment_is_left_out(monkeypatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node-17")
    said = (
        "GPU-01234567-89ab-cdef-0123-456789abcdef 00000000:3B:00.0 at 0x7f1234567890 on node-17 12:34:56 "
        "/home/someone/lib/torch/x.py pci_bus_id=59 0x0 /dev/nvidia0 https://pytorch.org/docs/a/b"
    )
    assert plain.text(said) == (
        "GPU-<uuid> <bus id> at <address> on <host> <time> <folder>/x.py pci_bus_id=<number> 0x0 /dev/nvidia0 "
        "https://pytorch.org/docs/a/b"
    )
    assert plain.text("wrong (Triggered internally at /pytorch/c10/x.cpp:11.)") == "wrong"
    assert plain.text("wrong\nException raised from f at /x.cpp:1 (most recent call first):\nframe #0") == "wrong"
    assert len(plain.text("x" * 9000)) < 2100


def test_steps_answer_with_values_errors_and_warnings() -> None:
    told = list(steps.run_all(["x = 2", "x + 1", "x.nothing", "__import__('warnings').warn('so', UserWarning)"]))
    assert told == [
        {"value": "None"},
        {"value": "3"},
        {"error": "AttributeError", "message": "'int' object has no attribute 'nothing'"},
        {"value": "None", "warnings": ["UserWarning: so"]},
    ]
    assert list(steps.run_all(["forked('1 + 1')", "forked('nothing')"])) == [
        {"value": "2"},
        {"value": "NameError: name 'nothing' is not defined"},
    ]


PROBES = """\
[g]
torch.version.debug
os.getpid() == os.getpgid(0)
os.getpid() ;; os._exit(7)
os.kill(os.getpid(), 11)
__import__("time").sleep(600)
__import__("subprocess").Popen(["sleep", "611"]) and None ;; __import__("time").sleep(600)
VARIABLE=1 | os.environ["VARIABLE"] ;; "torch" in sys.modules
fresh VARIABLE=2 | os.environ["VARIABLE"] ;; "torch" in sys.modules
[other] xpu
torch.xpu.nothing
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, dict]:
    """What a recorder with a list of its own writes."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("recorder")
    shutil.copy(HERE / "record.py", folder)
    shutil.copytree(HERE / "recorder", folder / "recorder")
    (folder / "probes.txt").write_text(PROBES)
    file = folder / "told.json"
    command = [PYTHON, str(folder / "record.py"), "-o", str(file), "-j", "3", "--limit", "6", "--total", "60"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert time.monotonic() - started < 60
    assert done.returncode == 1 and "unfinished: os.kill(os.getpid(), 11)" in done.stdout, done.stdout + done.stderr
    document = json.loads(file.read_text())
    told: dict[str, dict] = document["probes"]
    assert list(told) == [probe.id for probe in probes.load(folder / "probes.txt")]
    return told


def test_a_process_of_its_own_for_each(told) -> None:
    row = told["torch.version.debug"]
    assert row["steps"][0]["value"] == "False" and row["before"] == row["steps"][0]["touch"]
    assert row["child"] and "unfinished" not in row
    assert told["os.getpid() == os.getpgid(0)"]["steps"][0]["value"] == "True"


def test_what_ends_or_hangs_is_told_and_leaves_nothing_behind(told) -> None:
    ended = told["os.getpid() ;; os._exit(7)"]
    assert len(ended["steps"]) == 1 and ended["unfinished"] == "ended with status 7"
    assert told["os.kill(os.getpid(), 11)"]["unfinished"] == "ended by signal 11"
    assert told['__import__("time").sleep(600)']["unfinished"] == "took more than 6 seconds"
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert "sleep 611" not in left


def test_variables_are_set_before_the_first_step(told) -> None:
    for line, value in (("VARIABLE=1 ", "'1'"), ("fresh VARIABLE=2 ", "'2'")):
        row = next(row for id, row in told.items() if id.startswith(line))
        assert [step["value"] for step in row["steps"]] == [value, "True"]


def test_what_a_platform_lacks_is_not_applicable(told) -> None:
    assert told["torch.xpu.nothing"] == {"group": "other", "not applicable": "for xpu"}
