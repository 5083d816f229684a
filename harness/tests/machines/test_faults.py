"""Faulty machines: what the runtime counts and says, and what the host shows."""

from __future__ import annotations

import pytest

from masquerade import machines
from masquerade.machines import Machine, resolve

FAULTY = [name for name in machines.names() if resolve(name).fault]
KINDS = {
    "driver-missing",
    "driver-too-old",
    "kfd-missing",
    "zero-devices",
    "two-vendors",
    "management-failing",
    "management-absent",
    "init-fails",
    "visible-devices-conflict",
    "visible-devices-none",
}


def fault(machine: Machine) -> dict[str, object]:
    assert machine.fault is not None
    return dict(machine.fault)


def test_every_kind_is_there() -> None:
    assert {resolve(name).fault["kind"] for name in FAULTY} == KINDS  # type: ignore[index]


@pytest.mark.parametrize("kind", sorted(KINDS - {"zero-devices"}))
def test_the_kind_is_a_name_too(kind: str) -> None:
    assert fault(resolve(kind))["kind"] == kind


@pytest.mark.parametrize("name", FAULTY)
def test_messages_name_their_source(name: str) -> None:
    machine = resolve(name)
    for key, value in fault(machine).items():
        if value is not None:
            found = {text for at, text in machine.sources().items() if at.startswith(f"fault.{key}")}
            assert found and all(len(text) > 20 for text in found)


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu"])
def test_zero_devices(platform: str) -> None:
    machine = resolve(f"{platform}-zero-devices")
    assert machine.platform == platform and machine.devices == () and fault(machine)["count"] == 0
    assert machine.driver["version"] not in (None, "unknown")
    assert "are available" in str(fault(machine)["init_error"])


def test_driver_missing() -> None:
    machine = resolve("driver-missing")
    assert fault(machine)["count"] == 0 and fault(machine)["count_warning"] is None
    assert "Found no NVIDIA driver" in str(fault(machine)["init_error"])
    assert machine.management["nvml"] == "failing"
    assert fault(machine)["management_error"] == "NVML Shared Library Not Found"
    assert machine.host["dev"] == [] and "nvidia-smi" not in machine.host["tools"]
    assert machine.driver == {"version": None, "runtime": None}
    assert len(machine.devices) == 1, "the card is there, only the driver is not"


def test_driver_too_old() -> None:
    machine = resolve("driver-too-old")
    init = fault(machine)["init_error"]
    assert isinstance(init, dict) and init["type"] == "RuntimeError"
    assert "too old (found version 11040)" in init["message"]
    # torch warns with the same words when it counts: c10's device_count catches what init raises.
    assert str(fault(machine)["count_warning"]).startswith(f"CUDA initialization: {init['message']}")
    assert machine.management["nvml"] == "ok" and machine.driver["runtime"] == "11.4"


def test_kfd_missing() -> None:
    machine = resolve("kfd-missing")
    assert machine.host["dev"] == ["/dev/dri/renderD128"]
    assert fault(machine)["init_error"] == {"type": "RuntimeError", "message": "No HIP GPUs are available"}


@pytest.mark.parametrize(("name", "other"), [("cuda-two-vendors", "amd"), ("rocm-two-vendors", "nvidia")])
def test_two_vendors(name: str, other: str) -> None:
    machine = resolve(name)
    (card,) = machine.other_devices
    assert card["vendor"] == other
    assert card["pci_bus_id"] != machine.devices[0]["pci_bus_id"]
    assert card["pci_vendor_id"] != machine.devices[0]["pci_vendor_id"]
    assert machine.management["nvml"] == machine.management["amdsmi"] == "ok"
    assert {"/dev/kfd", "/dev/nvidia0"} <= set(machine.host["dev"])
    assert {"nvidia-smi", "rocm-smi"} <= set(machine.host["tools"])
    assert (machine.torch["cuda"] is None) != (machine.torch["hip"] is None), "torch is built for one of them"
    assert machine.sources()["other_devices.0.name"]


def test_management_fails_or_is_absent() -> None:
    assert resolve("management-failing").management["nvml"] == "failing"
    assert resolve("management-absent").management["nvml"] == "absent"
    assert resolve("rocm-management-failing").management["amdsmi"] == "failing"
    assert "Driver not loaded" in str(fault(resolve("rocm-management-failing"))["management_error"])
    assert resolve("rocm-management-absent").management["amdsmi"] == "absent"
    for name in ("management-failing", "management-absent", "rocm-management-failing", "rocm-management-absent"):
        assert fault(resolve(name))["init_error"] is None, "the runtime itself works"


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu"])
def test_init_fails_although_the_device_is_listed(platform: str) -> None:
    machine = resolve(f"{platform}-init-fails")
    assert machine.devices and fault(machine)["init_error"]
    assert "ok" in machine.management.values()


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("rocm-visible-conflict", {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}),
        ("cuda-visible-none", {"CUDA_VISIBLE_DEVICES": "7"}),
        ("rocm-visible-none", {"HIP_VISIBLE_DEVICES": "7"}),
        ("xpu-visible-none", {"ZE_AFFINITY_MASK": "7"}),
    ],
)
def test_visible_devices(name: str, variables: dict[str, str]) -> None:
    machine = resolve(name)
    assert variables.items() <= machine.host["env"].items()
    # The variables alone do it: with others, the machine is healthy.
    assert {value for key, value in fault(machine).items() if key != "kind"} == {None}


def test_healthy_machines_have_no_fault_and_see_all_devices() -> None:
    for name in set(machines.names()) - set(FAULTY) - {"here"}:
        environment = resolve(name).host["env"]
        assert not any("VISIBLE_DEVICES" in variable or variable == "ZE_AFFINITY_MASK" for variable in environment)


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("h100", {"CUDA_HOME": "/usr/local/cuda", "ROCM_HOME": None}),
        ("mi300x", {"ROCM_HOME": "/opt/rocm", "CUDA_HOME": None}),
        ("b580", {"ROCM_HOME": None, "CUDA_HOME": None}),
        ("spr", {"ROCM_HOME": None, "CUDA_HOME": None}),
    ],
)
def test_a_host_has_the_installation_of_its_platform_alone(name: str, env: dict[str, str | None]) -> None:
    assert env.items() <= resolve(name).host["env"].items()
