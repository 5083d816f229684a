"""The tables and the matching behind the watchers: whose a name is, how far a call reaches, a program's name."""

from __future__ import annotations

import sys

import pytest

from masquerade.watch.grades import CLEAN, FORK_POISON, PREFIXES, QUERIED, grade
from masquerade.watch.imports import executed_names, owner_of
from masquerade.watch.native import LIBRARIES, platform_of
from masquerade.watch.processes import isolated, program, shell_command

OWNED = {"aiter": "rocm", "pkg.platforms.rocm": "rocm", "pkg": "cuda"}


@pytest.mark.parametrize(
    "name, entry",
    [
        ("aiter", "aiter"),
        ("aiter.ops.gemm", "aiter"),
        ("aiter_stubs", ""),
        ("my.aiter", ""),
        ("pkg.platforms.rocm.ops", "pkg.platforms.rocm"),
        ("pkg.platforms.rocm_stub", "pkg"),
        ("pkg.platforms", "pkg"),
        ("", ""),
    ],
)
def test_names_are_matched_by_whole_components_the_longest_first(name: str, entry: str) -> None:
    assert owner_of(name, OWNED) == entry


@pytest.mark.parametrize(
    "name, file, names",
    [
        ("aiter", "/site/aiter/__init__.py", ("aiter",)),
        ("aiter.ops", "/site/aiter/ops.py", ("aiter.ops",)),
        ("aiter.ops", "/site/aiter/ops.cpython-311-x86_64-linux-gnu.so", ("aiter.ops",)),
        # run under another name: what the file is counts
        ("harmless", "/site/aiter/ops.py", ("aiter.ops",)),
        ("__main__", "/site/aiter/__init__.py", ("aiter",)),
        ("", "/site/aiter/ops.py", ("aiter.ops",)),
        # a stub under the vendor's name, elsewhere, is what its own file says
        ("aiter", "/app/stubs/fake.py", ("stubs.fake",)),
        # below no folder of the path: the name, where the file bears it
        ("aiter", "/else/where/aiter.py", ("aiter",)),
        ("aiter", "/else/where/stub.py", ()),
    ],
)
def test_what_is_executed_decides(name: str, file: str, names: tuple[str, ...]) -> None:
    assert executed_names(name, file, ["/site", "/app", ""]) == names


@pytest.mark.parametrize(
    "library, platform",
    [
        ("libcuda.so.1", "cuda"),
        ("libcuda.so", "cuda"),
        ("libcudart.so.13", "cuda"),
        ("libnvidia-ml.so.1", "cuda"),
        ("libamdhip64.so.7", "rocm"),
        ("libze_loader.so.1", "xpu"),
        ("libcudadebugger.so.1", ""),
        ("libcurl.so.4", ""),
        ("libhsa", ""),
        ("", ""),
    ],
)
def test_a_library_belongs_to_the_platform_of_its_driver(library: str, platform: str) -> None:
    assert platform_of(library) == platform


def test_every_library_has_a_platform_that_exists() -> None:
    assert set(LIBRARIES.values()) == {"cuda", "rocm", "xpu"}


@pytest.mark.parametrize(
    "name, level",
    [
        ("_cuda_isInBadFork", "clean"),
        ("_cuda_memoryStats", "clean"),
        ("_cuda_tunableop_enable", "clean"),
        ("_cuda_getDeviceCount", "fork-poison"),
        ("_xpu_getDeviceCount", "queried"),
        ("_cuda_init", "device-init"),
        ("_cuda_synchronize", "device-init"),
        ("_xpu_init", "device-init"),
        ("_cuda_a_name_of_a_later_torch", "device-init"),
    ],
)
def test_grades(name: str, level: str) -> None:
    assert grade(name) == level


def test_no_name_has_two_grades() -> None:
    assert not CLEAN & FORK_POISON and not CLEAN & QUERIED and not FORK_POISON & QUERIED
    assert all(name.startswith((*PREFIXES, "_get_accelerator")) for name in CLEAN | FORK_POISON | QUERIED)


@pytest.mark.parametrize(
    "executable, args, name",
    [
        ("/usr/bin/nvidia-smi", ["nvidia-smi", "-L"], "nvidia-smi"),
        (b"/usr/bin/true", None, "true"),
        (None, ["git", "log"], "git"),
        ([b"/bin/ls"], None, "ls"),
        ("/opt/bin/python3.12", None, "python"),
        (sys.executable, None, "python"),
        ("python3-config", None, "python3-config"),
        (None, None, "?"),
        (3, 4, "?"),
    ],
)
def test_a_program_is_its_base_name(executable: object, args: object, name: str) -> None:
    assert program(executable, args) == name


@pytest.mark.parametrize(
    "argv, alone",
    [
        (["python", "-c", "pass"], False),
        (["python", "-I", "-c", "pass"], True),
        (["python", "-uE", "x.py"], True),
        (["python", "-S"], True),
        (["python", "x.py", "-I"], False),
        (["python", "-m", "x", "-E"], False),
        (["python", "-c", "x", "-I"], False),
        (["python", "--help-all", "-I"], True),
        ([b"python", b"-I"], True),
        ("python -I", False),
        (None, False),
    ],
)
def test_an_interpreter_that_no_disguise_reaches(argv: object, alone: bool) -> None:
    assert isolated(argv) == alone


@pytest.mark.parametrize(
    "argv, command",
    [
        (["/bin/sh", "-c", "nvidia-smi -L"], "nvidia-smi -L"),
        ([b"bash", b"-c", b"true"], "true"),
        (["bash", "script.sh", "-c"], ""),
        (["sh", "-c"], ""),
        (["ssh", "-c", "aes128-ctr", "host"], ""),
        (["python", "-c", "pass"], ""),
        ("sh -c true", ""),
        (None, ""),
    ],
)
def test_what_a_shell_is_to_run(argv: object, command: str) -> None:
    assert shell_command(argv) == command
