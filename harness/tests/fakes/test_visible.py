"""Visible-devices variables, as each vendor's driver reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.fakes.world import World


def shown(platform: str, environ: dict[str, str], count: int = 4) -> list[int]:
    devices = []
    for index in range(count):
        device = {"pci_bus_id": f"0000:{9 - index:02x}:00.0"}
        if platform == "cuda":
            device["uuid"] = f"GPU-{'ab'[index // 2]}{index}000000-1111-2222-3333-444444444444"
        if platform == "rocm":
            device["serial"] = f"0x{'ab'[index // 2]}{index}00000000000000"
        devices.append(device)
    world = World({"id": "m", "platform": platform, "devices": devices}, environ)
    return [device.index for device in world.visible()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2,1", [2, 1]),
        ("0,2,-1,1", [0, 2]),
        ("-1", []),
        ("1,7,2", [1]),
        ("1,1", []),
        ("0,1,0", []),
        ("1gpu2,2ampere", [1, 2]),
        (" 3 , 0", [3, 0]),
        ("none", []),
        ("GPU-a1", [1]),
        ("GPU-", []),  # so an H200's driver, while torch's count over NVML is 1 (fixtures/recordings)
        ("GPU-b3,GPU-a0", [3, 0]),
        ("GPU-a", []),
        ("GPU-a1,GPU-a1", []),
        ("GPU-a1,0", [1]),
        ("MIG-1234", []),
    ],
)
def test_cuda(value: str | None, expected: list[int]) -> None:
    assert shown("cuda", {} if value is None else {"CUDA_VISIBLE_DEVICES": value}) == expected


def test_cuda_counts_by_bus_where_it_is_told_to() -> None:
    assert shown("cuda", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [3, 2, 1, 0]
    assert shown("cuda", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"}) == [3]
    assert shown("cuda", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "0"}) == [0]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"HIP_VISIBLE_DEVICES": "2,1"}, [2, 1]),
        ({"CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": ""}, [0, 1, 2, 3]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "1,1,0"}, [1, 0]),
        ({"HIP_VISIBLE_DEVICES": "1, 0"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": "0,9,1"}, [0]),
        ({"HIP_VISIBLE_DEVICES": "GPU-b3"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "3,1"}, [3, 1]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": "1,1,2"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "0x2"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": "1x"}, []),
        ({"ROCR_VISIBLE_DEVICES": "gpu-b3"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-a"}, []),
        ({"ROCR_VISIBLE_DEVICES": "3,1", "HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "3,2", "HIP_VISIBLE_DEVICES": "1,0"}, [2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "1"}, []),
    ],
)
def test_hip_over_rocr(environ: dict[str, str], expected: list[int]) -> None:
    assert shown("rocm", environ) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ZE_AFFINITY_MASK": "3,1"}, [1, 3]),
        ({"ZE_AFFINITY_MASK": ""}, [0, 1, 2, 3]),
        ({"ZE_AFFINITY_MASK": "9"}, []),
        ({"ZE_AFFINITY_MASK": "1.0"}, []),
        ({"ZE_AFFINITY_MASK": "1.0", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}, [1]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:2"}, [2]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}, [0, 1, 2, 3]),
        ({"ONEAPI_DEVICE_SELECTOR": "opencl:*"}, []),
        ({"ONEAPI_DEVICE_SELECTOR": "*:0,3"}, [0, 3]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:0;level_zero:2"}, [0, 2]),
        ({"ONEAPI_DEVICE_SELECTOR": "!level_zero:1"}, [0, 2, 3]),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:*;!level_zero:0,1"}, [2, 3]),
        ({"ONEAPI_DEVICE_SELECTOR": "Level_Zero:cpu"}, []),
        ({"ZE_AFFINITY_MASK": "2,3", "ONEAPI_DEVICE_SELECTOR": "level_zero:1"}, [3]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [0, 1, 2, 3]),
    ],
)
def test_level_zero_and_sycl(environ: dict[str, str], expected: list[int]) -> None:
    assert shown("xpu", environ) == expected


@pytest.mark.parametrize(("selector", "why"), [("level_zero:gpu:0", "Too many colons"), ("level_zero", "Incomplete")])
def test_a_selector_that_sycl_cannot_parse(selector: str, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        shown("xpu", {"ONEAPI_DEVICE_SELECTOR": selector})


NAMES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


@given(
    platform=st.sampled_from(["cuda", "rocm", "xpu"]),
    environ=st.dictionaries(st.sampled_from(NAMES), st.text("0123456789,-. xGPUgpuab", max_size=12)),
)
def test_whatever_is_written_there_shows_devices_that_exist_once(platform: str, environ: dict[str, str]) -> None:
    found = shown(platform, environ)
    assert set(found) <= {0, 1, 2, 3}
    assert len(set(found)) == len(found)
