"""The key of Triton's cache in disguise: another one whenever a file of Triton is, and cheap."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Run, write
from masquerade import machines
from masquerade.fakes.triton_key import key
from masquerade.stage import Check, Stage

SUBJECT = """
import builtins

def asked():
    import triton.runtime.cache as cache
    opened = []
    real = builtins.open
    builtins.open = lambda file, *args, **more: opened.append(str(file)) or real(file, *args, **more)
    found = cache.triton_key()
    builtins.open = real
    from triton.runtime.autotuner import triton_key
    return [found, triton_key() == found, opened]
"""


def test_the_key_follows_names_sizes_and_times_and_not_byte_code(tmp_path: Path) -> None:
    (tmp_path / "compiler").mkdir()
    file = tmp_path / "compiler" / "compiler.py"
    file.write_text("a = 1")
    os.utime(file, (100, 100))
    seen = [key(str(tmp_path))]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("")
    assert key(str(tmp_path)) == seen[0]
    os.utime(file, (100, 101))
    seen.append(key(str(tmp_path)))
    file.write_text("a = 11")
    os.utime(file, (100, 101))
    seen.append(key(str(tmp_path)))
    file.rename(file.with_name("other.py"))
    seen.append(key(str(tmp_path)))
    assert len(set(seen)) == 4


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("machine", ["h200", "mi355x"])
def test_in_disguise_nothing_is_read_for_it(run: Run, machine: str) -> None:
    found, same, opened = run(SUBJECT, "subject:asked", on=machine).result
    assert found.startswith("masquerade-") and same and opened == []


MADE = """
def before():
    import triton.runtime.cache as cache
    made = cache.triton_key.cache_info().currsize
    return [made, cache.triton_key()]
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_for_checks_in_a_row_it_is_made_once(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"subject.py": MADE})
    check = Check("subject:before", machines.resolve("mi355x"), path=(str(tmp_path),))
    found = []
    for first in ((), ("triton.runtime.cache",)):
        row = [replace(check, first=first, label=label) for label in "ab"]
        found.append(list(one.run_all(row))[-1].result)
    assert [made for made, _ in found] == [0, 1]
    assert len({key for _, key in found}) == 1
