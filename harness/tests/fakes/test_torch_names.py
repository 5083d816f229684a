"""Every name below torch.cuda and torch.xpu that the installed torch lists is answered, or an error names it."""

from __future__ import annotations

import pytest

CALL_ALL = """\
import inspect, re, torch
from pathlib import Path

def answer():
    kind = {kind!r}
    getattr(torch, kind).init()
    text = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text()
    out = {{}}
    for name, parameters in re.findall(rf"^def (_{{kind}}_\\w+)\\(([^)]*)\\)", text, re.M):
        call = getattr(torch._C, name, None)
        if call is None:
            out[name] = "missing"
            continue
        wanted = [word for word in parameters.split(",") if word.strip() and "=" not in word and "*" not in word]
        arguments = [torch.device(kind, 0) if "device: _device" in word else 0 for word in wanted]
        try:
            call(*arguments)
            out[name] = "answered"
        except BaseException as error:
            out[name] = type(error).__name__ + ": " + str(error)
    return out
"""


@pytest.mark.parametrize(("machine", "kind"), [("h200", "cuda"), ("mi355x", "cuda"), ("b580", "xpu")])
def test_every_listed_name_is_answered_or_names_itself(ask, machine: str, kind: str) -> None:
    told = ask(CALL_ALL.format(kind=kind), on=machine)
    assert len(told) > (60 if kind == "cuda" else 20)

    def right(name: str, said: str) -> bool:
        refused = f"NoAnswerError: torch._C.{name} was called on machine {machine}"
        return said == "answered" or said.startswith((refused, "UnknownValueError: "))

    assert {name: said for name, said in told.items() if not right(name, said)} == {}
    answered = [name for name, said in told.items() if said == "answered"]
    assert len(answered) > (40 if kind == "cuda" else 15)


def test_unknown_values_are_named_and_never_made_up(ask) -> None:
    source = """\
    import torch
    def answer():
        try: torch.cuda.can_device_access_peer(0, 1)
        except RuntimeError as error: return str(error)
    """
    told = ask(source, on="h200x2")
    assert "peer_access" in told and "h200x2" in told and "torch.cuda.can_device_access_peer" in told


def test_what_was_read_on_a_real_h200(ask) -> None:
    """torch 2.11.0+cu130, driver 580.159.04, one card."""
    source = """\
    import torch
    def answer():
        out = [torch.cuda.is_initialized()]
        try: torch.cuda.set_device(3)
        except torch.AcceleratorError as error: out.append(str(error).splitlines()[:2])
        out += [torch.cuda.is_initialized(), torch.cuda.can_device_access_peer(0, 0)]
        out += [torch.cuda.Stream.priority_range(), hasattr(torch.cuda.cudart(), "cudaDeviceSynchronize")]
        return out
    """
    out_of_range = ["CUDA error: invalid device ordinal", "GPU device may be out of range, do you have enough GPUs?"]
    assert ask(source, on="h200") == [False, out_of_range, True, False, [0, -3], False]


@pytest.mark.parametrize(
    ("machine", "present", "absent"),
    [
        ("h200", "_cuda_init", "_xpu_init"),
        ("mi355x", "_cuda_init", "_xpu_init"),
        ("b580", "_xpu_init", "_cuda_init"),
        ("spr", "", "_cuda_init _xpu_init _CudaDeviceProperties _XpuDeviceProperties _cudart"),
    ],
)
def test_a_build_has_the_names_of_its_own_platform_alone(ask, machine: str, present: str, absent: str) -> None:
    source = "import torch\ndef answer(names): return [name for name in names if hasattr(torch._C, name)]"
    assert ask(source, on=machine, args=[[*present.split(), *absent.split()]]) == present.split()
