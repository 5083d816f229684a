"""Real cards are seen by the kernel's files and the vendors' tools: here on file systems made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.machines.hardware import look


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def put(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def tool(root: Path, name: str, *lines: str, status: int = 0) -> None:
    put(root, f"bin/{name}", "\n".join(["#!/bin/sh", *(f"echo '{line}'" for line in lines), f"exit {status}"]))
    (root / "bin" / name).chmod(0o755)


def card(root: Path, vendor: str, kind: str = "0x030000") -> None:
    put(root, f"sys/bus/pci/devices/0000:0{vendor[-1]}:00.0/vendor", f"{vendor}\n")
    put(root, f"sys/bus/pci/devices/0000:0{vendor[-1]}:00.0/class", f"{kind}\n")


def by_platform(root: Path):
    return {each.platform: each for each in look(root)}


def test_an_empty_host_has_nothing_and_says_what_was_looked_for(root) -> None:
    found = by_platform(root)
    assert [each.devices for each in found.values()] == [(), (), ()]
    assert found["cuda"].missing == ("no /dev/nvidia0", "no nvidia-smi", "no NVIDIA card on the PCI bus")
    assert "no /dev/kfd" in found["rocm"].missing


def test_nvidia_by_its_tool_and_without_it(root) -> None:
    put(root, "dev/nvidia0")
    put(root, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   1\n")
    assert by_platform(root)["cuda"].devices == ("NVIDIA H200",)
    tool(root, "nvidia-smi", "NVIDIA H200, 9.0, 580.82.07")
    assert by_platform(root)["cuda"].devices == ("NVIDIA H200, 9.0, 580.82.07",)


def test_a_tool_that_fails_is_not_believed(root) -> None:
    tool(root, "nvidia-smi", "a, b, c", status=9)
    assert by_platform(root)["cuda"].devices == ()


@pytest.mark.parametrize(
    ("version", "arch"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (120001, "gfx1201")],
)
def test_amd_by_the_kernels_topology(root, version, arch) -> None:
    put(root, "dev/kfd")
    put(root, "sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\ngfx_target_version 0\n")
    put(root, "sys/class/kfd/kfd/topology/nodes/1/properties", f"simd_count 304\ngfx_target_version {version}\n")
    assert by_platform(root)["rocm"].devices == (arch,)


def test_intel_by_its_tool_and_by_its_render_node(root) -> None:
    put(root, "sys/class/drm/renderD128/device/vendor", "0x8086\n")
    put(root, "sys/class/drm/renderD128/device/device", "0xe20b\n")
    assert by_platform(root)["xpu"].devices == ("Intel GPU 0xe20b (/dev/dri/renderD128)",)
    tool(root, "xpu-smi", '{"device_list": [{"device_id": 0, "device_name": "Intel(R) Arc(TM) B580 Graphics"}]}')
    assert by_platform(root)["xpu"].devices == ("Intel(R) Arc(TM) B580 Graphics",)
    tool(root, "xpu-smi", "not json")
    assert by_platform(root)["xpu"].devices == ("Intel GPU 0xe20b (/dev/dri/renderD128)",)


def test_a_card_without_a_driver_is_told_apart_from_no_card(root) -> None:
    card(root, "0x10de")
    card(root, "0x1002", "0x120000")
    found = by_platform(root)
    assert "1 NVIDIA card(s) on the PCI bus, which no driver serves" in found["cuda"].missing
    assert "1 AMD card(s) on the PCI bus, which no driver serves" in found["rocm"].missing
    assert "no Intel card on the PCI bus" in found["xpu"].missing


def test_a_network_card_of_a_vendor_is_no_accelerator(root) -> None:
    card(root, "0x8086", "0x020000")
    assert "no Intel card on the PCI bus" in by_platform(root)["xpu"].missing
