"""A device that was opened, or only asked for, cannot be used after a fork: torch says so as on a real machine."""

from __future__ import annotations

import pytest

FORKED = """\
import os, torch

def in_child(call):
    read, write = os.pipe()
    if os.fork() == 0:
        try: said = str(call())
        except BaseException as error: said = f"{{type(error).__name__}}: {{error}}"
        os.write(write, said.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe: said = pipe.read().decode()
    os.wait()
    return said

def answer():
    device = torch.{kind}
    {before}
    return in_child(lambda: {inside})
"""

AGAIN = (
    "RuntimeError: Cannot re-initialize {0} in forked subprocess. "
    "To use {0} with multiprocessing, you must use the 'spawn' start method"
)


@pytest.mark.parametrize(
    ("machine", "kind", "word"), [("h200", "cuda", "CUDA"), ("mi355x", "cuda", "CUDA"), ("b580", "xpu", "XPU")]
)
@pytest.mark.parametrize("inside", ["device.init()", "torch.empty(1, device='{kind}')", "device.current_device()"])
@pytest.mark.parametrize("before", ["device.init()", "torch.empty(1, device='{kind}')"])
def test_an_opened_device_cannot_be_used_after_a_fork(ask, machine, kind, word, before, inside) -> None:
    source = FORKED.format(kind=kind, before=before.format(kind=kind), inside=inside.format(kind=kind))
    assert ask(source, on=machine) == AGAIN.format(word)


def test_a_poisoned_fork_is_as_bad_though_nothing_was_initialized(ask) -> None:
    counted = "assert device.is_available() and not device.is_initialized()"
    source = FORKED.format(kind="cuda", before=counted, inside="device.init()")
    env = {"PYTORCH_NVML_BASED_CUDA_CHECK": None}
    assert ask(source, env=env) == AGAIN.format("CUDA")
    assert ask(source, env={"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}) == "None"  # NVML harms no fork


@pytest.mark.parametrize("before", ["pass", "device._is_compiled()", "torch.manual_seed(1)", "torch.version.cuda"])
def test_a_fork_before_any_touch_may_use_the_device(ask, before: str) -> None:
    assert ask(FORKED.format(kind="cuda", before=before, inside="device.get_device_name()")) == "NVIDIA H200"


def test_a_fork_knows_that_it_is_bad(ask) -> None:
    inside = "(device._is_in_bad_fork(), device.is_initialized())"
    source = FORKED.format(kind="cuda", before="device.init()", inside=inside)
    assert ask(source) == "(True, False)"


def test_what_is_asked_of_a_bad_fork_is_answered_without_the_driver(ask) -> None:
    source = FORKED.format(kind="cuda", before="device.init()", inside="(device.is_available(), device.device_count())")
    assert ask(source, env={"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}) == "(True, 1)"
