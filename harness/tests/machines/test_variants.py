"""Names: ids, aliases, and the variants that are built from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade import machines
from masquerade.machines import UnknownMachineError, install, resolve

IDS = [name for name in machines.names() if name != "here"]
GPU = [name for name in IDS if resolve(name).devices]


@pytest.mark.parametrize(
    ("word", "id"),
    [
        ("cuda", "h100"),
        ("rocm", "mi300x"),
        ("xpu", "b580"),
        ("cpu", "spr"),
        ("h100-sxm", "h100"),
        ("a100-80g", "a100"),
        ("gfx1250", "mi455x"),
        ("genoa-turin", "epyc-9655"),
        ("xeon", "spr"),
        ("mi355", "mi355x"),
        ("H200", "h200"),
        ("driver-missing", "cuda-driver-missing"),
    ],
)
def test_words_that_mean_a_machine(word: str, id: str) -> None:
    assert resolve(word).id == id


def test_bare_words_have_their_platform() -> None:
    for platform in ("cuda", "rocm", "xpu", "cpu"):
        assert resolve(platform).platform == platform
    assert resolve("cpu").host["torch_cpu"]["_is_amx_tile_supported"] is True


@pytest.mark.parametrize("id", IDS)
def test_every_id_is_itself_with_or_without_a_variant(id: str) -> None:
    assert resolve(id).id == id
    assert resolve(f"{id}+aiter").id == f"{id}+aiter"


@pytest.mark.parametrize("id", GPU)
@pytest.mark.parametrize("count", [2, 8])
def test_count_of_devices(id: str, count: int) -> None:
    machine = resolve(f"{id}x{count}")
    assert machine.id == f"{id}x{count}" and len(machine.devices) == count
    for key in ("uuid", "pci_bus_id", "serial"):
        assert len({device[key] for device in machine.devices}) == count, key
    plain = resolve(id).devices[0]
    same = set(plain) - {"uuid", "pci_bus_id", "serial"}
    assert all({key: device[key] for key in same} == {key: plain[key] for key in same} for device in machine.devices)


def test_identities_are_placeholders_the_same_each_time() -> None:
    two, eight = resolve("h200x2"), resolve("h200x8")
    assert two.devices == eight.devices[:2]
    assert "placeholder" in eight.sources()["devices.7.uuid"]
    assert resolve("b60x2").devices[1]["uuid"] == "868011e2-0000-0000-0700-000000000000"
    amd = resolve("mi300x").devices[0]
    assert amd["uuid"] == "GPU-" + amd["serial"].removeprefix("0x")


def test_device_nodes_grow_with_the_devices() -> None:
    assert resolve("h200x2").host["dev"][:2] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert resolve("mi300xx2").host["dev"] == ["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"]
    assert resolve("cuda-zero-devices").host["dev"] == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    bus = resolve("h200").devices[0]["pci_bus_id"]
    assert f"/proc/driver/nvidia/gpus/{bus}/information" in resolve("h200").host["paths"]


def test_names_that_end_in_digits_or_x_are_read_right() -> None:
    assert len(resolve("rtx5090").devices) == 1
    assert len(resolve("max1550").devices) == 1
    assert len(resolve("rtx5090x4").devices) == 4
    assert (resolve("mi355x8").id, len(resolve("mi355x8").devices)) == ("mi355xx8", 8)
    assert (resolve("h100-sxmx2").id, len(resolve("h100-sxmx2").devices)) == ("h100x2", 2)


def test_packages_combine_with_a_count() -> None:
    machine = resolve("mi355xx8+aiter-amdsmi")
    assert machine.id == "mi355xx8+aiter-amdsmi" and len(machine.devices) == 8
    assert list(machine.packages["present"]) == ["aiter"]
    assert machine.packages["absent"] == ["amdsmi"]
    assert machine.management["amdsmi"] == "absent"
    assert resolve("mi355xx8-amdsmi+aiter") == machine


def test_a_machine_says_nothing_of_packages_by_itself() -> None:
    for id in IDS:
        assert resolve(id).packages == {"present": {}, "absent": []}


def test_a_known_package_brings_what_is_known_of_it() -> None:
    assert resolve("mi355x+aiter").packages["present"]["aiter"] == {
        "version": "0.1.7.post2.dev18",
        "distribution": "amd-aiter",
        "on_import": "device-init",
    }
    assert "PyPI" in resolve("mi355x+aiter").sources()["packages.present.aiter.version"]


def test_any_package_may_be_present_as_a_stand_in_or_absent() -> None:
    machine = resolve("b580+frobnicator-numpy")
    assert machine.packages["present"]["frobnicator"]["version"] == "unknown"
    assert machine.packages["present"]["frobnicator"]["on_import"] == "clean"
    assert machine.packages["absent"] == ["numpy"]
    assert list(resolve("h100+cuda.bindings").packages["present"]) == ["cuda.bindings"]


@pytest.mark.parametrize(
    ("name", "library", "state"),
    [
        ("h100", "nvml", "ok"),
        ("h100-pynvml", "nvml", "absent"),
        ("h100+amdsmi", "amdsmi", "failing"),
        ("mi300x", "amdsmi", "ok"),
        ("mi300x+pynvml", "nvml", "failing"),
        ("rocm-management-absent+amdsmi", "amdsmi", "ok"),
        ("spr+pynvml", "nvml", "failing"),
    ],
)
def test_management_libraries_are_a_state_of_the_machine(name: str, library: str, state: str) -> None:
    assert resolve(name).management[library] == state


def test_of_present_and_absent_the_later_word_holds() -> None:
    assert resolve("mi300x-amdsmi+amdsmi").management["amdsmi"] == "ok"
    assert resolve("mi300x+amdsmi-amdsmi").packages == {"present": {}, "absent": ["amdsmi"]}


def test_install_adds_to_a_machine_that_has_a_variant() -> None:
    machine = install(resolve("mi355x-flashinfer"), present=["aiter", "flashinfer"], absent=["numpy"])
    assert machine.id == "mi355x-flashinfer+aiter+flashinfer-numpy"
    assert set(machine.packages["present"]) == {"aiter", "flashinfer"}
    assert machine.packages["absent"] == ["numpy"]
    assert resolve(machine.id).packages["absent"] == ["numpy"]
    assert install(resolve("mi355x+aiter"), absent=["aiter"]).packages == {"present": {}, "absent": ["aiter"]}


def test_an_arch_is_no_machine_and_gets_those_that_have_it() -> None:
    with pytest.raises(UnknownMachineError, match=r"^gfx950 is an arch, not a machine; nearest: ") as caught:
        resolve("gfx950")
    assert "mi355x" in caught.value.nearest
    assert {resolve(name).arch for name in caught.value.nearest} == {"gfx950"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("h201", "h200"),
        ("mi35x", "mi355x"),
        ("h100-sxn", "h100-sxm"),
        ("mi300x-amdsm", "amdsmi"),
        ("cudda", "cuda"),
        ("h200y8", "h200"),
        ("h200x8x2", "h200"),
        ("mi355x++aiter", "mi355x"),
        ("mi355x+", "mi355x"),
        ("driver-mising", "driver-missing"),
        ("here+aiter", "here"),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, nearest: str) -> None:
    with pytest.raises(UnknownMachineError) as caught:
        resolve(name)
    assert nearest in caught.value.nearest
    assert name in str(caught.value) and nearest in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["h200x0", "h200x121"])
def test_a_count_that_cannot_be(name: str) -> None:
    with pytest.raises(UnknownMachineError, match="1 to 120 devices"):
        resolve(name)


@pytest.mark.parametrize("name", ["", "x8", "+aiter", "-amdsmi", "wholly different"])
def test_no_machine_at_all(name: str) -> None:
    with pytest.raises(UnknownMachineError):
        resolve(name)


@given(st.text(alphabet="hmirtxabc0123456789+-._ x", max_size=16))
def test_any_text_is_a_machine_or_a_known_error(name: str) -> None:
    try:
        assert resolve(name).id
    except UnknownMachineError as error:
        assert name in str(error)
