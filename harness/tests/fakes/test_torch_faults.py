"""Faulty machines: torch counts what it counts there and says what it says there, under every build."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade import machines
from masquerade.stage import Stage

SURVEY = """\
import torch, warnings

def answer(kind):
    device, warned = getattr(torch, kind), []

    def tried(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try: said = call()
            except Exception as error: said = f"{type(error).__name__}: {error}"
        warned.extend(str(warning.message) for warning in caught)
        return said if isinstance(said, (bool, int)) else str(said)

    out = {
        "available": tried(device.is_available),
        "count": tried(device.device_count),
        "accelerator": tried(torch.accelerator.is_available),
        "init": tried(device.init),
        "initialized": tried(device.is_initialized),
        "properties": tried(lambda: device.get_device_properties(0)),
        "tensor": tried(lambda: torch.empty(1, device=kind).device),
        "again": tried(device.init),
    }
    return {**out, "warned": warned}
"""

#: machine, devices that torch counts by the management library where it may, and whether it can be used.
FAULTY = [
    ("cuda-driver-missing", 0, False),
    ("cuda-driver-too-old", 1, False),
    ("cuda-init-fails", 8, False),
    ("cuda-management-absent", 1, True),
    ("cuda-management-failing", 1, True),
    ("cuda-two-vendors", 1, True),
    ("cuda-visible-none", 0, False),
    ("cuda-zero-devices", 0, False),
    ("rocm-init-fails", 1, False),
    ("rocm-kfd-missing", 1, False),
    ("rocm-management-absent", 1, True),
    ("rocm-management-failing", 1, True),
    ("rocm-two-vendors", 1, True),
    ("rocm-visible-conflict", 1, True),
    ("rocm-visible-none", 0, False),
    ("rocm-zero-devices", 0, False),
    ("xpu-init-fails", 1, False),
    ("xpu-visible-none", 0, False),
    ("xpu-zero-devices", 0, False),
]


def test_every_faulty_machine_of_the_zoo_is_here() -> None:
    faulty = {name for name in machines.names() if machines.resolve(name).fault}
    assert faulty == {name for name, _, _ in FAULTY}


@pytest.fixture(scope="module")
def seen() -> dict[Any, Any]:
    return {}


@pytest.mark.parametrize("nvml", [None, "1"])
@pytest.mark.parametrize(("name", "count", "usable"), FAULTY)
def test_a_faulty_machine(ask, seen, name: str, count: int, usable: bool, nvml: str | None) -> None:
    machine = machines.resolve(name)
    fault, kind = machine.to_json()["fault"], "xpu" if machine.platform == "xpu" else "cuda"
    told = ask(SURVEY, on=name, args=[kind], env={"PYTORCH_NVML_BASED_CUDA_CHECK": nvml})
    assert told["count"] == count
    assert told["initialized"] is usable
    if usable:
        assert told["available"] is told["accelerator"] is True
        assert told["tensor"] == f"{kind}:0" and told["init"] == told["again"] == "None"
    else:
        word = {"cuda": "CUDA GPUs", "rocm": "HIP GPUs", "xpu": "XPU devices"}[machine.platform]
        error = fault["init_error"] or {"type": "RuntimeError", "message": f"No {word} are available"}
        said = f"{error['type']}: {error['message']}"
        assert told["init"] == told["again"] == told["tensor"] == told["properties"] == said
        asked_driver = kind == "cuda" and not nvml
        if asked_driver:
            assert told["available"] is told["accelerator"] is False
        if fault["count_warning"] and asked_driver:
            assert fault["count_warning"] in told["warned"]
    # torch warns of a management library that is there and does not start.
    torchs_own = {"Can't initialize amdsmi - Error code: 34"} if name == "rocm-management-failing" else set()
    if not fault["count_warning"]:
        assert set(told["warned"]) <= torchs_own
    first = seen.setdefault((name, nvml), told)
    assert told == first


def test_a_cuda_build_on_a_host_without_a_driver_says_what_the_faked_one_says(torch_stage: Stage, ask) -> None:
    real = ask(SURVEY, on="here", args=["cuda"])
    if not real["init"].startswith("RuntimeError: Found no NVIDIA driver"):
        pytest.skip("needs a CUDA build of torch on a host without an NVIDIA driver")
    assert ask(SURVEY, on="cuda-driver-missing", args=["cuda"]) == real
