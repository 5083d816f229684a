"""What an import does beside the device: each kind is noted with its line, and what only looks like it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cases import told

from conftest import Run, write
from masquerade.stage import Record, Stage

OWNERS = {"rocm": ("vendor",), "cuda": ("pkg.cuda_ops",)}


def found(record: Record) -> list[tuple[str, str, int]]:
    """(kind, what, blamed line) of every finding."""
    return [(f.kind, f.what, f.blame.line if f.blame else 0) for f in record.findings]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("os.environ['NEW'] = '1'", [("env-mutation", "NEW", 2)]),
        ("os.putenv('NEW', '1')", [("env-mutation", "NEW", 2)]),
        ("os.environ.pop('KEPT')", [("env-mutation", "KEPT", 2)]),
        ("os.environ.update(KEPT='other')", [("env-mutation", "KEPT", 2)]),
        ("os.environ.clear()", None),
        ("os.environ['KEPT'] = 'as it was'", []),
        ("os.environ.setdefault('KEPT', 'x')", []),
        ("os.environ.pop('NEVER', None)", []),
        ("os.environ.get('KEPT')", []),
    ],
)
def test_variables(run: Run, source: str, expected: list[tuple[str, str, int]] | None) -> None:
    made = found(run(f"import os\n{source}\n", env={"KEPT": "as it was"}))
    if expected is None:
        assert ("env-mutation", "KEPT", 2) in made and ("env-mutation", "PATH", 2) in made
    else:
        assert made == expected


@pytest.mark.parametrize(
    "source, what",
    [
        ("subprocess.run(['true'])", "true"),
        ("subprocess.run('true', shell=True)", "sh"),
        ("subprocess.Popen([sys.executable, '-c', '']).wait()", "python"),
        ("subprocess.run(['true'], close_fds=False)", "true"),  # goes through posix_spawn
        ("os.system('true')", "sh"),
        ("os.popen('true').read()", "sh"),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", "true"),
        ("os.spawnv(os.P_WAIT, '/bin/true', ['true'])", "os.fork"),
        ("os.fork() or os._exit(0)", "os.fork"),
        ("multiprocessing.get_context('spawn').Process(target=print).start()", "python"),
    ],
)
def test_processes_are_noted_once(run: Run, source: str, what: str) -> None:
    record = run(f"import multiprocessing, os, subprocess, sys\n{source}\n", timeout=20)
    mine = [(f.kind, f.what, f.blame.line) for f in record.findings if f.blame and f.what == what]
    assert mine == [("subprocess", what, 2)], told(record)


@pytest.mark.parametrize(
    "source",
    [
        "os.system('true --here')",
        "os.popen('true --here').read()",
        "subprocess.run('true --here', shell=True)",
        "subprocess.run(['bash', '-c', 'true --here'])",
    ],
)
def test_a_shell_is_told_with_what_it_runs(run: Run, source: str) -> None:
    [finding] = run(f"import os, subprocess\n{source}\n").findings
    assert finding.message == "runs: true --here"


def test_a_program_of_a_call_is_no_finding(run: Run) -> None:
    assert run("import os\ndef go(): os.system('true')", subject="subject:go").findings == ()


@pytest.mark.parametrize("module", ["platform", "uuid", "ctypes.util", "sysconfig"])
def test_what_the_standard_library_runs_of_itself_is_no_finding(run: Run, module: str) -> None:
    calls = {
        "platform": "platform.platform(); platform.processor()",
        "uuid": "uuid.getnode()",
        "ctypes.util": "ctypes.util.find_library('m')",
        "sysconfig": "sysconfig.get_paths()",
    }
    record = run(f"import platform, uuid, ctypes.util, sysconfig\n{calls[module]}\n")
    assert record.findings == (), told(record)


@pytest.mark.parametrize(
    "source",
    [
        "threading.Thread(target=print).start()",
        "t = threading.Timer(0, print); t.start(); t.join()",
        "_thread.start_new_thread(print, ())",
        "concurrent.futures.ThreadPoolExecutor(1).submit(print).result()",
    ],
)
def test_threads(run: Run, source: str) -> None:
    record = run(f"import _thread, concurrent.futures, threading\n{source}\n")
    assert [(kind, line) for kind, _, line in found(record)] == [("thread", 2)], told(record)


@pytest.mark.parametrize(
    "source, what",
    [
        ("threading.Thread(target=poll_2).start()", "Thread (poll_2)"),
        ("threading.Thread(target=poll_2, name='sync').start()", "sync"),
        ("_thread.start_new_thread(poll_2, ())", "poll_2"),
        ("concurrent.futures.ThreadPoolExecutor(1).submit(poll_2).result()", "ThreadPoolExecutor"),
    ],
)
def test_a_thread_is_told_by_its_name_without_the_number_of_a_count(run: Run, source: str, what: str) -> None:
    record = run(f"import _thread, concurrent.futures, threading\ndef poll_2(): pass\n{source}\n")
    assert [finding[:2] for finding in found(record)] == [("thread", what)], told(record)


def test_a_thread_that_is_left_behind_is_waited_for_and_what_it_does_is_seen(run: Run, tmp_path: Path) -> None:
    source = """\
    import threading, time
    def later():
        time.sleep(0.3)
        import vendor
    threading.Thread(target=later).start()
    """
    write(tmp_path, {"vendor.py": ""})
    record = run(source, owners={"rocm": ("vendor",)}, on="cuda")
    assert found(record)[0] == ("forbidden-import", "vendor", 4) and record.seconds >= 0.3
    # The stack begins where the thread was started.
    assert "subject.py:5 in <module>" in record.findings[0].stack


def test_a_thread_that_stays_is_waited_for_a_while_and_told(run: Run) -> None:
    record = run("import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()\n", settle=0.4)
    assert record.verdict == "thread" and record.seconds < 5
    assert record.notes == ("1 thread still ran when the check ended",)


@pytest.mark.parametrize(
    "on, library, kind",
    [
        ("cuda", "libcuda.so.1", "native-load"),
        ("rocm", "libcuda.so.1", "forbidden-native"),
        ("cpu", "libcuda.so.1", "forbidden-native"),
        ("rocm", "libamdhip64.so", "native-load"),
        ("xpu", "/opt/x/libze_loader.so.1", "native-load"),
        ("cuda", "libze_loader.so.1", "forbidden-native"),
        ("cpu", "libm.so.6", ""),
    ],
)
def test_native_libraries(run: Run, on: str, library: str, kind: str) -> None:
    record = run(f"import ctypes\ntry: ctypes.CDLL({library!r})\nexcept OSError: pass\n", on=on)
    name = library.rpartition("/")[2]
    assert found(record) == ([(kind, name, 2)] if kind else []), told(record)


@pytest.fixture
def vendors(one: Stage, tmp_path: Path):
    """A subject beside a vendor's package; gives its findings on a platform."""

    def vendors(source: str, more: dict[str, str] | None = None, on: str = "cuda") -> list[tuple[str, str, int]]:
        write(tmp_path, {"app/subject.py": source, "lib/vendor/__init__.py": "X = 1", "lib/vendor/ops.py": "Y = 2"})
        write(tmp_path, more or {})
        record = one.run("subject", on=on, path=[tmp_path / "app", tmp_path / "lib"], owners=OWNERS)
        assert "import-error" not in [f.kind for f in record.findings], told(record)
        return found(record)

    return vendors


FOREIGN = [("forbidden-import", "vendor", 2)]


@pytest.mark.parametrize(
    "source",
    [
        "import vendor",
        "from vendor import X",
        "import vendor.ops",
        "importlib.import_module('vendor')",
        "__import__('vendor')",
        "importlib.util.find_spec('vendor.ops')",  # imports the parent
        "runpy.run_module('vendor.ops')",
        "s = importlib.util.find_spec('vendor'); m = importlib.util.module_from_spec(s); s.loader.exec_module(m)",
        "importlib.machinery.SourceFileLoader('own', importlib.util.find_spec('vendor').origin).load_module()",
    ],
)
def test_a_foreign_module_counts_when_it_is_executed(vendors, source: str) -> None:
    head = "import importlib, importlib.machinery, importlib.util, runpy, sys\n"
    assert vendors(head + source) == FOREIGN
    assert vendors(head + source, on="rocm") == []


@pytest.mark.parametrize(
    "source",
    [
        "importlib.util.find_spec('vendor')",
        "importlib.metadata.packages_distributions()",
        "list(pkgutil.iter_modules())",
        "sys.modules['vendor'] = type(sys)('vendor'); import vendor",
        "open(importlib.util.find_spec('vendor').origin).read()",
        "compile('import vendor', '<text>', 'exec')",
        "sys.modules['vendor'] = None; exec('try: import vendor\\nexcept ImportError: pass')",
    ],
)
def test_asking_for_a_foreign_module_executes_nothing(vendors, source: str) -> None:
    assert vendors("import importlib.metadata, importlib.util, pkgutil, sys\n" + source) == []


def test_a_foreign_module_whose_import_fails_and_is_forgiven_counts(vendors) -> None:
    source = "try:\n    import vendor.broken\nexcept RuntimeError: pass\n"
    assert vendors(source, {"lib/vendor/broken.py": "raise RuntimeError"}) == FOREIGN


def test_a_foreign_part_of_the_subjects_own_package(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "from pkg import cuda_ops", "pkg/cuda_ops.py": "", "pkg/cuda_ops_stub.py": ""})
    assert found(one.run("pkg", on="xpu", path=[tmp_path], owners=OWNERS)) == [("forbidden-import", "pkg.cuda_ops", 1)]
    assert found(one.run("pkg", on="cuda", path=[tmp_path], owners=OWNERS)) == []
    write(tmp_path, {"pkg/__init__.py": "from pkg import cuda_ops_stub"})
    assert found(one.run("pkg", on="xpu", path=[tmp_path], owners=OWNERS)) == []


def test_another_subjects_interpreter_is_named_python_whatever_its_suffix(run: Run) -> None:
    suffix = Path(sys.executable).name
    record = run(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])\n# {suffix}\n")
    assert found(record) == [("subprocess", "python", 2)]


def test_a_thread_of_library_code_alone_is_blamed_where_it_was_started(one: Stage, tmp_path: Path) -> None:
    source = "import threading, torch\nt = threading.Thread(target=torch.cuda.init)\nt.start()\nt.join()\n"
    write(tmp_path, {"starts.py": source})
    record = one.run("starts", on="cuda", path=[tmp_path])
    assert ("device-init", "starts.py:3") in [(f.kind, str(f.blame)) for f in record.findings], told(record)
