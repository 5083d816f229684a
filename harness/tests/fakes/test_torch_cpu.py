"""What torch says of the host's processor: the machine's, whatever this computer has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]

LEVEL = "import torch\ndef answer(): return [torch.backends.cpu.get_cpu_capability(), torch._C._get_cpu_capability()]"


@pytest.mark.parametrize("on, level", [("epyc-9655", "AVX512"), ("ryzen-5950x", "AVX2"), ("power10", "VSX")])
def test_the_level_that_kernels_are_chosen_by(ask: Ask, on: str, level: str) -> None:
    assert ask(LEVEL, on) == [level, level]


def test_an_unknown_level_is_not_made_up(ask: Ask) -> None:
    source = """\
    import torch
    def answer():
        try:
            return torch.backends.cpu.get_cpu_capability()
        except Exception as error:
            return [type(error).__name__, str(error)]
    """
    name, said = ask(source, "graviton4")
    assert name == "UnknownValueError"
    assert said.startswith("torch.backends.cpu.get_cpu_capability asked for host.torch_cpu.get_cpu_capability")


def test_the_table_of_capabilities_is_the_callers_own(ask: Ask) -> None:
    source = """\
    import torch
    def answer():
        table = torch._C._cpu._get_cpu_capability()
        before = table["architecture"]
        table["architecture"] = "changed"
        return [before, torch.cpu.get_capabilities()["architecture"]]
    """
    assert ask(source, "graviton4") == ["arm64", "arm64"]
