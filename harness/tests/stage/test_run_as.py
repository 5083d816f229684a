"""A whole command in disguise: its children wear the machine too, and its streams and its end are its own."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import below, end

from conftest import other_python, write
from masquerade import machines
from masquerade.stage import StageError, SubjectError, heirs
from masquerade.stage import run_as as module
from masquerade.stage.run_as import RunResult, run_as

HARNESS = Path(machines.__file__).parents[2]

#: Asks for the device without torch: the management library of an NVIDIA machine is a fake too.
NAME = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)))"

Result = tuple[RunResult, str, str]


@pytest.fixture(autouse=True)
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every run removes its folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.glob("masquerade-*")) == []


@pytest.fixture
def disguised(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Result]:
    """Run a command as h200 and give its result and what it wrote."""

    def disguised(*command: str, files: dict[str, str] | None = None, on: str = "h200", **options: object) -> Result:
        write(tmp_path, files or {})
        capfd.readouterr()
        result = run_as(on, [word.replace("{here}", str(tmp_path)) for word in command], **options)
        out, err = capfd.readouterr()
        return result, out, err

    return disguised


def test_python_dash_c(disguised) -> None:
    result, out, err = disguised(sys.executable, "-c", NAME)
    assert (result.exit_status, out, err) == (0, "NVIDIA H200\n", "")
    assert result.processes == 1 and result.record.verdict == "ok" and result.record.notes == ()


SPAWN = """\
import multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor

def name(_=None):
    import pynvml
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))

if __name__ == "__main__":
    print("main", name(), flush=True)
    for method in ("spawn", "fork", "forkserver"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            print(method, pool.submit(name).result(), flush=True)
    subprocess.run([sys.executable, "-c", "import __main__; from main import name; print('sub', name())"], check=True)
    os.system(f"{sys.executable} -c \\"from main import name; print('shell', name())\\"")
    os.execv(sys.executable, [sys.executable, "-c", "from main import name; print('exec', name())"])
"""


def test_every_kind_of_child_wears_it(disguised, tmp_path: Path) -> None:
    result, out, err = disguised(sys.executable, "{here}/main.py", files={"main.py": SPAWN}, path=[str(tmp_path)])
    words = ["main", "spawn", "fork", "forkserver", "sub", "shell", "exec"]
    assert out == "".join(f"{word} NVIDIA H200\n" for word in words), err
    assert result.exit_status == 0 and result.processes >= 6 and result.record.notes == ()


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run(ARGV, env={'A': '1'})",
        "subprocess.run(ARGV, env={b'A': b'1'})",
        "subprocess.run(ARGV, env={})",
        "assert os.execve in os.supports_fd; os.execve(ARGV[0], ARGV, {})",
        "subprocess.run(ARGV, env={**os.environ, 'PYTHONPATH': '/nowhere'})",
        "os.environ.clear(); subprocess.run(ARGV)",
        "os.waitpid(os.posix_spawn(ARGV[0], ARGV, {}), 0)",
        "os.spawnve(os.P_WAIT, ARGV[0], ARGV, {'A': '1'})",
        "os.environ.clear(); os.execv(ARGV[0], ARGV)",
        "os.execvpe(ARGV[0], ARGV, {'A': '1'})",
        "os.fork() and (os.wait(), os._exit(0)); os.environ.clear(); os.execl(ARGV[0], *ARGV)",
    ],
)
def test_a_child_with_an_environment_of_its_own_wears_it_too(disguised, start: str) -> None:
    source = f"import os, subprocess, sys\nARGV = [sys.executable, '-c', {NAME!r}]\n{start}\n"
    result, out, err = disguised(sys.executable, "-c", source)
    assert (out, result.record.notes) == ("NVIDIA H200\n", ()), err
    assert result.processes >= 2


def test_torch_and_a_spawned_child_of_it(disguised) -> None:
    source = """\
    import multiprocessing, torch
    def name(queue): queue.put(str(torch.cuda.get_device_properties(0)))
    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        child = context.Process(target=name, args=(queue,))
        child.start()
        print(queue.get() == str(torch.cuda.get_device_properties(0)), torch.cuda.get_device_name())
        child.join()
    """
    result, out, _ = disguised(sys.executable, "{here}/main.py", files={"main.py": source}, on="mi355x")
    assert (result.exit_status, out) == (0, "True AMD Instinct MI355X\n")


def test_modules_and_console_scripts(disguised, tmp_path: Path) -> None:
    files = {"tool/__main__.py": NAME, "script": f"#!{sys.executable}\n{NAME}\n"}
    result, out, _ = disguised(sys.executable, "-m", "tool", files=files, path=[str(tmp_path)])
    assert (result.exit_status, out) == (0, "NVIDIA H200\n")
    (tmp_path / "script").chmod(0o755)
    result, out, _ = disguised("{here}/script")
    assert (result.exit_status, out) == (0, "NVIDIA H200\n")


def test_the_machines_own_tools_are_on_the_path(disguised) -> None:
    _, out, _ = disguised("nvidia-smi", "-L")
    assert out.startswith("GPU 0: NVIDIA H200")
    result, out, _ = disguised("sh", "-c", "command -v nvidia-smi || echo none", on="mi355x")
    assert out == "none\n"
    assert result.record.notes == ("no Python process of the command wore the disguise",)


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_the_users_own_customization_runs(
    disguised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mine = "print('mine', __name__, __file__.rpartition('/')[2])\nVALUE = 7\n"
    write(tmp_path, {f"mine/{name}.py": mine})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    source = f"import {name}, sys; print({name}.VALUE, [entry for entry in sys.path if 'masquerade-run' in entry])"
    _, out, err = disguised(sys.executable, "-c", source)
    if name == "usercustomize" and not out.startswith("mine"):
        pytest.skip("this interpreter runs no usercustomize, as in most virtual environments")
    assert out == f"mine {name} {name}.py\n7 []\n", err


def test_an_error_in_the_users_customization_is_told_by_python_itself(disguised, tmp_path: Path, monkeypatch) -> None:
    write(tmp_path, {"mine/sitecustomize.py": "raise KeyError('mine')\n"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    result, out, err = disguised(sys.executable, "-c", NAME)
    assert (result.exit_status, out) == (0, "NVIDIA H200\n")
    assert "Error in sitecustomize" in err and "KeyError" in err


@pytest.mark.parametrize("code, status", [("pass", 0), ("raise SystemExit(7)", 7), ("1/0", 1)])
def test_the_exit_status_is_the_commands(disguised, code: str, status: int) -> None:
    result, _, _ = disguised(sys.executable, "-c", code)
    assert result.exit_status == status and result.record.result == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_death_by_a_signal_is_a_status_as_in_a_shell(disguised, number: signal.Signals) -> None:
    result, _, _ = disguised(sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    assert result.exit_status == 128 + number


def test_standard_input_and_output_pass_through() -> None:
    source = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1]); sys.stderr.write('err')"
    command = f"from masquerade.stage.run_as import run_as; run_as('h200', [{sys.executable!r}, '-c', {source!r}])"
    data = os.urandom(200_000)
    done = subprocess.run(
        [sys.executable, "-c", command], input=data, capture_output=True, env={**os.environ, "PYTHONPATH": str(HARNESS)}
    )
    assert done.stdout == data[::-1] and done.stderr == b"err"


@pytest.mark.parametrize("flag", ["-I", "-E", "-S", "-IB"])
def test_an_isolated_interpreter_is_noted(disguised, flag: str) -> None:
    result, _, _ = disguised(sys.executable, flag, "-c", "pass")
    assert result.record.notes[0] == "1 Python process started with -I, -E or -S wore no disguise"
    child = f"import subprocess, sys; subprocess.run([sys.executable, {flag!r}, '-c', 'pass'])"
    result, _, _ = disguised(sys.executable, "-c", child)
    assert result.record.notes == ("1 Python process started with -I, -E or -S wore no disguise",)


def test_a_python_that_is_too_old_runs_and_is_noted(disguised) -> None:
    result, out, _ = disguised(other_python("3.9"), "-c", "print('ran')")
    assert (result.exit_status, out) == (0, "ran\n")
    assert "a process of Python 3.9 ran without a disguise: 3.10 or newer is needed" in result.record.notes


def test_variables_of_the_check(disguised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", "1")
    source = "import os; print(os.environ.get('OLD'), os.environ.get('NEW'))"
    _, out, _ = disguised(sys.executable, "-c", source, env={"OLD": None, "NEW": "2"})
    assert out == "None 2\n"


def test_a_python_path_of_the_users_own_takes_no_disguise_off(disguised, tmp_path: Path) -> None:
    write(tmp_path, {"mine/mine.py": "", "also/also.py": ""})
    source = f"{NAME}; import mine, also"
    result, out, err = disguised(
        sys.executable, "-c", source, env={"PYTHONPATH": str(tmp_path / "mine")}, path=[str(tmp_path / "also")]
    )
    assert (out, err, result.processes) == ("NVIDIA H200\n", "", 1)
    result, out, _ = disguised(sys.executable, "-c", NAME, env={"PYTHONPATH": None})
    assert (out, result.processes) == ("NVIDIA H200\n", 1)


def test_a_path_of_the_users_own_has_the_machines_tools_first(disguised, tmp_path: Path) -> None:
    write(tmp_path, {"bin/nvidia-smi": "#!/bin/sh\necho real\n", "bin/rocm-smi": "#!/bin/sh\necho real\n"})
    for name in ("nvidia-smi", "rocm-smi"):
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    _, out, _ = disguised("sh", "-c", "nvidia-smi -L; command -v rocm-smi || echo none", env={"PATH": path})
    assert out.startswith("GPU 0: NVIDIA H200") and out.endswith("\nnone\n")


def test_what_the_command_did_is_found_in_its_own_code(disguised, tmp_path: Path) -> None:
    main = "import os\nif os.fork() == 0:\n    import foreign_vendor\nelse:\n    os.wait()\n"
    files = {"foreign_vendor.py": "", "main.py": main}
    result, _, _ = disguised(sys.executable, "{here}/main.py", files=files, owners={"rocm": ["foreign_vendor"]})
    assert result.record.verdict == "forbidden-import"
    assert (result.record.worst.what, result.record.worst.blame.line) == ("foreign_vendor", 3)
    assert result.record.worst.blame.file.endswith("main.py")
    result, _, _ = disguised(sys.executable, "{here}/main.py", owners={"rocm": ["foreign_vendor"]}, on="mi355x")
    assert result.record.verdict == "ok"


def test_an_owned_module_that_its_package_lacks_is_told(disguised, tmp_path, monkeypatch) -> None:
    files = {"pkg/__init__.py": "", "pkg/rocm.py": "", "main.py": "import pkg\n"}
    owners = {"rocm": ["pkg.rcm", "pkg.rocm", "ghost.ops"]}
    told = "nothing was looked for as pkg.rcm: there is no module pkg.rcm; did you mean pkg.rocm?"
    command = (sys.executable, "{here}/main.py")
    result, _, _ = disguised(*command, files=files, owners=owners)
    assert result.record.notes == (), "the script's own folder is not known"
    result, _, _ = disguised(*command, owners=owners, path=[str(tmp_path)])
    assert [note.startswith(told) for note in result.record.notes] == [True]
    monkeypatch.chdir(tmp_path)
    assert len(disguised(*command, owners=owners)[0].record.notes) == 1
    assert disguised(*command, owners=owners, on="here")[0].record.notes == ()


def test_each_process_has_its_own_torch(tmp_path: Path) -> None:
    joined = [{"kind": "joined", "what": "python", "facts": facts} for facts in (
        {"torch_folders": [], "stdlib": ["/lib/a"], "path": ["/site/a"], "python": "3.11.7"},
        {"torch_folders": ["/site/b/torch"], "stdlib": ["/lib/b", 3], "path": "/", "python": "3.12.1"},
        {"torch_folders": None}, "torn",
    )]  # fmt: skip
    assert module._facts([{"kind": "touch"}, *joined]) == {
        "torch_folders": ["/site/b/torch"], "stdlib": ["/lib/a", "/lib/b"], "path": ["/site/a"], "python": "3.11.7",
    }  # fmt: skip
    assert module._facts([]) == {"torch_folders": [], "stdlib": [], "path": [], "python": ""}


@pytest.mark.parametrize(("version", "inherits"), [((3, 13, 0), True), ((3, 12, 9), False)])
def test_no_environment_is_that_of_this_process_from_python_3_13_on(monkeypatch, version, inherits) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert (heirs._spawned(None, "/site") or {}).get("PYTHONPATH") == ("/site" if inherits else None)
    monkeypatch.setenv("PYTHONPATH", "/site")
    assert heirs._spawned(None, "/site") is None
    assert heirs._spawned({"A": "1"}, "/site") == {"A": "1", "PYTHONPATH": "/site"}


def test_a_command_may_remove_the_folder_that_it_is_started_in(disguised, tmp_path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    for source in ("os.rmdir(os.getcwd()); os._exit(7)", "os._exit(7)"):  # then it is gone from the beginning
        result, _, _ = disguised(sys.executable, "-c", f"import os; {source}")
        assert result.exit_status == 7


def test_here_is_a_machine_too(disguised) -> None:
    result, out, _ = disguised(sys.executable, "-c", "print('ran')", on="here")
    assert (result.exit_status, out, result.processes) == (0, "ran\n", 1)


@pytest.mark.parametrize(
    "command, says",
    [
        (["no-such-program-anywhere"], "cannot start no-such-program-anywhere: not on the PATH of machine h200"),
        (["rocm-smi"], "cannot start rocm-smi: not on the PATH of machine h200"),
        (["/no/such/program"], "cannot start /no/such/program: No such file or directory"),
        (["/tmp"], "cannot start /tmp: Permission denied"),
        ([""], "cannot start '': not on the PATH"),
        (["true", "x" * (1 << 18)], "cannot start true: Argument list too long"),
    ],
)
def test_a_command_that_cannot_be_started(command: list[str], says: str) -> None:
    with pytest.raises(SubjectError, match=says):
        run_as("h200", command)


def test_a_host_that_can_start_nothing_is_no_fault_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(module.subprocess, "Popen", full)
    with pytest.raises(StageError, match="cannot start true: Cannot allocate memory"):
        run_as("here", ["true"])


def test_a_disguise_that_fails_is_told_and_runs_nothing(disguised, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = module._prepare

    def broken(run: module._Run, document: dict[str, object]) -> None:
        prepare(run, document)
        (Path(run.folder) / "config.json").write_text("{")

    monkeypatch.setattr(module, "_prepare", broken)
    with pytest.raises(StageError, match="the disguise failed in a process of the command"):
        run_as("h200", [sys.executable, "-c", "print('ran')"])


def test_a_time_limit_ends_the_command_and_its_children(disguised, tmp_path: Path) -> None:
    source = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); "
        "print(p.pid, flush=True); time.sleep(60)"
    )  # fmt: skip
    started = time.monotonic()
    result, out, _ = disguised(sys.executable, "-c", source, timeout=2.0)
    assert time.monotonic() - started < 20
    assert result.exit_status == 124 and result.record.verdict == "timeout"
    assert end({int(out)}) == set()


def test_it_runs_in_a_thread_too() -> None:
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(run_as("h200", ["true"])))
    thread.start()
    thread.join()
    assert [result.exit_status for result in results] == [0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_tool_that_is_told_to_end_ends_its_command(tmp_path: Path, number: signal.Signals) -> None:
    said = tmp_path / "said"
    source = f"open({str(said)!r}, 'w').close(); import time; time.sleep(60)"
    # Under nohup a hang-up is ignored, by whatever is started too.
    default = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)"
    run = f"from masquerade.stage.run_as import run_as; run_as('h200', [{sys.executable!r}, '-c', {source!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{default}; {run}"],
        env={**os.environ, "PYTHONPATH": str(HARNESS), "TMPDIR": str(tmp_path / "temporary")},
    )
    try:
        deadline = time.monotonic() + 60
        while not said.exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        started = below(process.pid)
        assert started
        process.send_signal(number)
        process.wait(20)
    finally:
        process.kill()
    assert end(started) == set()
