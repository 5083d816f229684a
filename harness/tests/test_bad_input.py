"""Subjects that are wrong or do harm: each gets its verdict and its last words, and the next check shows no trace."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cases import matches, named, told
from processes import below, end

from conftest import Run
from masquerade.stage import Record, Stage

MIB = 1 << 20


@pytest.fixture
def harm(run: Run, one: Stage):
    """Run a source, then see that nothing of it is left and that the next checks on the same server are right."""

    def harm(source: str | bytes, **options) -> Record:
        folder = Path.cwd()
        record = run(source, timeout=options.pop("timeout", 20), **options)
        for name, on in (("o01", "cpu"), ("h05", "cuda")):
            case = named("hostile", name)
            (after,) = one.run_all([case.check(on)])
            assert matches(after, case.fair(on)[0]), told(after)
        (server,) = one._servers
        # The servers that wear a machine go on; they have no child, and there is no other.
        assert below(server.process.pid) <= set(server.dressed)
        assert Path.cwd() == folder
        return record

    return harm


def worst(record: Record) -> tuple[str, str, str]:
    """(kind, what, blamed line) of the finding that gives the verdict."""
    finding = record.worst
    assert finding is not None, told(record)
    return finding.kind, finding.what, str(finding.blame)


def test_a_module_that_does_not_exist(harm) -> None:
    record = harm("", subject="subject", on="cuda")
    assert record.verdict == "ok"
    record = harm("import subjekt", subject="subject")
    assert worst(record) == ("import-error", "ModuleNotFoundError", "subject.py:1")
    assert record.worst.message == "No module named 'subjekt'"


def test_a_subject_that_does_not_exist(one: Stage) -> None:
    record = one.run("no_such_subject.at.all")
    assert worst(record)[:2] == ("import-error", "ModuleNotFoundError")
    assert record.worst.message == "No module named 'no_such_subject'"


def test_a_function_that_does_not_exist(harm) -> None:
    record = harm("def there(): pass", subject="subject:their")
    assert worst(record)[:2] == ("call-mismatch", "subject:their")
    assert "their" in record.worst.message


@pytest.mark.parametrize(
    "source", [b"\xb4\x9c\xef" + b"\x00\xff\xfe" * 2000, b"\x7fELF\x02\x01\x01" + bytes(100)], ids=["bytes", "ELF"]
)
def test_a_file_that_is_not_python(harm, source: bytes) -> None:
    record = harm(source)
    assert record.verdict == "import-error" and worst(record)[1] in ("SyntaxError", "ValueError"), told(record)


def test_a_syntax_error_is_blamed_where_it_stands(harm) -> None:
    record = harm("good = 1\n\ndef broken(:\n    pass\n")
    assert worst(record) == ("import-error", "SyntaxError", "subject.py:3")
    assert record.worst.blame.code == "def broken(:"


@pytest.mark.parametrize(
    "source, what",
    [
        ("import os; os._exit(0)", "status 0"),
        ("import os; os._exit(9)", "status 9"),
        ("import sys; sys.exit('my last words')", "SystemExit"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_a_subject_that_ends_the_process(harm, source: str, what: str) -> None:
    record = harm(f"print('before the end', flush=True)\n{source}")
    assert worst(record) == ("exit", what, "subject.py:2")
    assert "before the end" in record.output
    if "my last words" in source:
        assert record.worst.message == "my last words"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGINT"])
def test_a_subject_that_kills_itself(harm, name: str) -> None:
    record = harm(f"import os, signal\nprint('bye', flush=True)\nos.kill(os.getpid(), signal.{name})\nos.getpid()")
    if name == "SIGINT":  # Python's own handler makes it an exception
        assert worst(record)[:2] == ("import-error", "KeyboardInterrupt")
    else:
        assert worst(record) == ("crash", name, "subject.py:3")
    assert "bye" in record.output


def test_a_subject_that_hangs(harm) -> None:
    started = time.monotonic()
    record = harm("import time\nprint('going to sleep', flush=True)\nwhile True:\n    time.sleep(1)\n", timeout=1.5)
    assert worst(record) == ("timeout", "1.5 s", "subject.py:4")
    assert "going to sleep" in record.output
    assert time.monotonic() - started < 1.5 + 2 + 2  # the two checks after it


def test_a_subject_that_prints_a_gigabyte(harm, one: Stage) -> None:
    record = harm(
        """
        import os
        piece = b"flood " * 200_000
        left = 1 << 30
        while left > 0:
            left -= os.write(1, piece)
        print("the end of it", flush=True)
        """,
        timeout=100,
    )
    assert record.verdict == "ok" and len(record.output) < 100_000
    assert record.output.endswith("the end of it\n")


def test_a_subject_that_closes_every_descriptor(harm) -> None:
    record = harm("import os\nos.closerange(0, 4096)\nprint('nobody hears this')\n")
    assert record.verdict == "ok" or worst(record)[0] in ("exit", "crash", "import-error"), told(record)


def test_a_subject_that_forks_and_leaves_children(harm) -> None:
    record = harm(
        """
        import os, subprocess, time
        read, write = os.pipe()
        def started(pid):
            os.write(1, f"started {pid}\\n".encode())
            os.write(write, b".")
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    started(os.getpid())
                    time.sleep(100)
                started(os.getpid())
                os._exit(0)  # its child is an orphan now
        started(subprocess.Popen(["sleep", "100"], start_new_session=True).pid)
        for _ in range(7):
            os.read(read, 1)
        """
    )
    started = {int(line.split()[1]) for line in record.output.splitlines() if line.startswith("started")}
    assert len(started) == 7 and end(started) == set(), record.output
    assert worst(record)[0] == "subprocess"
    assert {finding.what for finding in record.findings} >= {"os.fork", "sleep"}


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.chdir('/')\n",
        "import os, tempfile\nfolder = tempfile.mkdtemp()\nos.chdir(folder)\nos.rmdir(folder)\n",
        "import builtins\nbuiltins.__import__ = lambda *a, **k: None\n",
        "import builtins\ndel builtins.__import__\n",
        "import sys\nsys.meta_path.clear()\n",
        "import sys\nsys.meta_path[:] = [None, 3]\n",
        "import sys\nsys.path_hooks.clear(); sys.path_importer_cache.clear(); sys.path[:] = [b'x', 3]\n",
        "import sys, io\nsys.stdout = io.StringIO()\nprint('into the void')\n",
        "import sys\nsys.stdout = sys.stderr = sys.stdin = None\n",
        "import sys\nclass Mute:\n    def __getattr__(self, n): raise OSError(n)\nsys.stdout = sys.stderr = Mute()\n",
        "import sys, os\nsys.exit = os._exit = os.getpid = None\n",
    ],
)
@pytest.mark.parametrize("on", ["here", "xpu"])
def test_a_subject_that_changes_the_interpreter_is_still_heard(harm, source: str, on: str) -> None:
    record = harm(source, on=on)
    assert record.verdict == "ok", told(record)


def test_an_emptied_sys_modules_fails_the_import_as_it_does_everywhere(harm) -> None:
    assert worst(harm("import sys\nsys.modules.clear()\n"))[:2] == ("import-error", "KeyError")


def test_an_import_after_an_emptied_meta_path_is_the_subjects_error(harm) -> None:
    record = harm("import sys\nsys.meta_path.clear()\nimport colorsys\n")
    assert worst(record) == ("import-error", "ModuleNotFoundError", "subject.py:3")


def test_a_replaced_import_does_not_hide_a_device(harm) -> None:
    source = "import builtins, torch\nbuiltins.__import__ = lambda *a, **k: 1\ntorch.cuda.current_device()\n"
    assert worst(harm(source, on="cuda")) == ("device-init", "torch.cuda.current_device", "subject.py:3")


@pytest.mark.parametrize("error", ["class Odd(BaseException): pass", "class Odd(GeneratorExit): pass"])
def test_a_subject_that_raises_a_base_exception(harm, error: str) -> None:
    record = harm(f"{error}\nraise Odd('as it were')")
    assert worst(record) == ("import-error", "Odd", "subject.py:2")
    assert record.worst.message == "as it were"


def test_a_subject_that_recurses_for_ever(harm) -> None:
    record = harm("def down():\n    return down() + 1\ndown()\n")
    assert worst(record) == ("import-error", "RecursionError", "subject.py:2")


@pytest.mark.parametrize("limit", [MIB, 128 * MIB])
@pytest.mark.parametrize(
    "source",
    [
        "whole = bytearray(8 << 30)\n",
        "pieces = []\nwhile True: pieces.append(bytearray(1 << 20))\n",
        "pieces = []\nwhile True: pieces.append([None])\n",
    ],
)
def test_a_subject_that_takes_more_memory_than_it_may(harm, source: str, limit: int) -> None:
    record = harm(source, memory=limit, timeout=60)
    assert worst(record)[:2] == ("import-error", "MemoryError"), told(record)
    # With the last small object gone there is none left for a traceback either.
    assert worst(record)[2] in ("subject.py:1", "subject.py:2", *(["None"] if "[None]" in source else []))


def test_a_subject_within_its_memory_limit(harm) -> None:
    assert harm("whole = bytearray(64 << 20)\n", memory=128 * MIB).verdict == "ok"
