"""Breaks one fake, watcher or rule at a time in a copy of the package, and sees that tests go red.

The cheap mutants are broken in every run; all of them with -m slow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from masquerade import machines

TESTS = Path(__file__).parent
PACKAGE = Path(machines.__file__).parents[1]


class Mutant(NamedTuple):
    """What is broken: `old` becomes `new` in `file`. `proof`: the test file, and the tests in it, that must go red."""

    name: str
    file: str
    old: str
    new: str
    proof: str
    tests: str = ""


CHEAP = (
    Mutant(
        "_lazy_init is not intercepted",
        "watch/devices.py",
        "        if isinstance(lazy, FunctionType):",
        "        if False:",
        "test_hostile.py",
        "h05",
    ),
    Mutant(
        "counting devices harms no fork",
        "watch/grades.py",
        '["_cuda_getDeviceCount", ',
        "[",
        "test_cases.py",
        "a07",
    ),
    Mutant(
        "foreign modules are told by their name alone",
        "watch/imports.py",
        "    return found or (",
        "    found = ()\n    return found or (",
        "watch/test_events.py",
        "foreign_module_counts",
    ),
    Mutant(
        "no closing record is needed",
        "stage/findings.py",
        '        if reply.get("timed_out"):\n',
        '        if not int(reply.get("exit", 0)):\n            return []\n        if reply.get("timed_out"):\n',
        "stage/test_findings.py",
        "closing",
    ),
    Mutant(
        "slots are believed without their checksum",
        "stage/log.py",
        " or crc32(piece) != crc:",
        ":",
        "stage/test_log.py",
        "spoilt",
    ),
    Mutant(
        "a fork may go on using the device",
        "fakes/torch_driver.py",
        "return self._noted_in not in (0, os.getpid())",
        "return False",
        "fakes/test_torch_fork.py",
        "poisoned or knows",
    ),
)

MORE = (
    Mutant(
        "torch._C is not wrapped",
        "watch/devices.py",
        "        setattr(core, name, watched)\n",
        "",
        "test_hostile.py",
        "h09",
    ),
    Mutant(
        "streams are not watched",
        "watch/devices.py",
        '    "Stream": "device-init",\n',
        "",
        "fakes/test_torch_tensors.py",
        "opens or seen",
    ),
    Mutant(
        "a thread does not know who started it",
        "watch/threads.py",
        "            origins[me] = origin\n",
        "",
        "watch/test_events.py",
        "library_code",
    ),
    Mutant(
        "a variable that is taken away is not seen",
        "watch/environment.py",
        '"os.putenv": put, "os.unsetenv": unset',
        '"os.putenv": put',
        "watch/test_events.py",
        "variables",
    ),
    Mutant(
        "multiprocessing's processes are not seen",
        "watch/processes.py",
        "    _posixsubprocess.fork_exec = watched_fork_exec\n",
        "",
        "watch/test_events.py",
        "noted_once",
    ),
    Mutant(
        "a driver's library is nobody's",
        "watch/native.py",
        '"libcuda": "cuda",',
        "",
        "watch/test_events.py",
        "native",
    ),
    Mutant(
        "the code of a decorator is blamed",
        "stage/blame.py",
        "        if places.at(frame) in _decorator_lines(frame.file):",
        "        if False:",
        "stage/test_blame.py",
        "decorator",
    ),
    Mutant(
        "a call may not open its own device",
        "stage/findings.py",
        'if self._phase_of(event) == "call" and self._own(what):',
        "if False:",
        "test_cases.py",
        "c15",
    ),
    Mutant(
        "what torch does of itself is the subject's",
        "stage/findings.py",
        'if doer == "torch" or',
        "if",
        "stage/test_findings.py",
        "of_themselves",
    ),
    Mutant(
        "orphans slip away",
        "stage/supervise.py",
        "        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)",
        "        pass",
        "test_bad_input.py",
        "leaves_children",
    ),
    Mutant(
        "a server that died is not replaced",
        "stage/client.py",
        "                except OSError:  # the server died",
        "                except ZeroDivisionError:  # the server died",
        "stage/test_lives.py",
        "between_two_runs",
    ),
    Mutant(
        "no limit of memory",
        "stage/child.py",
        "    if not allowed:",
        "    if True:",
        "test_bad_input.py",
        "more_memory and whole",
    ),
    Mutant(
        "standard input is the server's",
        "stage/supervise.py",
        "    os.dup2(null, 0)\n    os.dup2(output, 1)",
        "    os.dup2(output, 1)",
        "test_hostile.py",
        "i25",
    ),
    Mutant(
        "the variables of a test run reach the subject",
        "stage/forkserver.py",
        '_TEST_VARIABLES = ("PYTEST_", ',
        "_TEST_VARIABLES = (",
        "stage/test_lives.py",
        "variables",
    ),
    Mutant(
        "the build is what it really is",
        "fakes/torch_runtime.py",
        '        setattr(version, name, world.known(f"torch.{name}"))',
        "        pass",
        "fakes/test_torch_answers.py",
        "alike and h200",
    ),
    Mutant(
        "names without an answer are left out",
        "fakes/torch_runtime.py",
        "vars(core).update({**unanswered(world, _names[prefix]), **given})",
        "vars(core).update(given)",
        "fakes/test_torch_names.py",
        "listed",
    ),
    Mutant(
        "a fault of the driver does not show",
        "fakes/torch_driver.py",
        '        error = self.fault("init_error")',
        "        error = None",
        "fakes/test_torch_faults.py",
        "driver-too-old",
    ),
    Mutant(
        "tensors stay on the CPU",
        "fakes/torch_tensor.py",
        "            return DeviceTensor(value, current(torch.device(target)))",
        "            return value",
        "fakes/test_torch_tensors.py",
        "made and h200",
    ),
    Mutant(
        "the management library is not torch's",
        "fakes/torch_runtime.py",
        "        cuda._HAS_PYNVML = True",
        "        cuda._HAS_PYNVML = False",
        "fakes/test_torch_streams.py",
        "without_an_answer",
    ),
)  # fmt: skip


def run(package: Path, proof: str, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests against the package in another folder."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(TESTS / proof)]
    environ = {**os.environ, "PYTHONPATH": str(package), "MASQUERADE_TEST_PYTHONS": ""}
    return subprocess.run(
        [*words, "-k", tests] if tests else words,
        env={key: value for key, value in environ.items() if not key.startswith("PYTEST_")},
        cwd=TESTS.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Mutant | None], Path]:
    """A copy of the package, broken or not; gives the folder that it lies in."""

    def copied(mutant: Mutant | None) -> Path:
        shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            file = tmp_path / PACKAGE.name / mutant.file
            source = file.read_text()
            assert source.count(mutant.old) == 1, f"{mutant.file} no longer holds, once: {mutant.old}"
            file.write_text(source.replace(mutant.old, mutant.new))
        return tmp_path

    return copied


def must_go_red(package: Path, mutant: Mutant) -> None:
    done = run(package, mutant.proof, mutant.tests)
    # 1: tests ran and one failed. 2 to 5 mean that they did not run.
    assert done.returncode == 1, f"{mutant.name}: no test went red\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert " error" not in done.stdout.splitlines()[-1], done.stdout[-3000:]


@pytest.mark.parametrize("mutant", CHEAP, ids=lambda mutant: mutant.name)
def test_a_cheap_mutant_is_noticed(copied: Callable[[Mutant], Path], mutant: Mutant) -> None:
    must_go_red(copied(mutant), mutant)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MORE, ids=lambda mutant: mutant.name)
def test_a_mutant_is_noticed(copied: Callable[[Mutant], Path], mutant: Mutant) -> None:
    must_go_red(copied(mutant), mutant)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", (*CHEAP, *MORE), ids=lambda mutant: mutant.name)
def test_without_the_mutant_they_are_green(copied: Callable[[None], Path], mutant: Mutant) -> None:
    done = run(copied(None), mutant.proof, mutant.tests)
    assert done.returncode == 0, done.stdout[-3000:]
