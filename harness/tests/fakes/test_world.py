"""A machine as the child asks it: what is known, what is unknown, and which devices there are."""

from __future__ import annotations

import pickle

import pytest

from masquerade.fakes.world import NoAnswerError, UnknownValueError, World

CARD = {
    "name": "A",
    "total_memory": 4,
    "power_limit": "unknown",
    "pci_vendor_id": "0x10de",
    "pci_bus_id": "0000:07:00.0",
}
MACHINE = {
    "id": "box",
    "platform": "cuda",
    "devices": [CARD, {**CARD, "name": "B", "pci_bus_id": "0000:05:00.0"}],
    "other_devices": [{"name": "C", "pci_vendor_id": "0x1002"}],
    "management": {"nvml": "ok"},
    "fault": None,
}


def test_a_known_leaf_and_its_siblings() -> None:
    world = World(MACHINE)
    assert world.get("devices.1.name") == "B"
    assert world.known("driver.version", "none") == "none"
    assert world.known("devices.0.power_limit") is None
    assert world.devices[0].get("total_memory") == 4
    assert world.management("nvml") == "ok"
    assert world.management("amdsmi") == "absent"


@pytest.mark.parametrize("key", ["devices.0.power_limit", "devices.0.nothing", "devices.9.name", "driver.version"])
def test_an_unknown_leaf_names_machine_key_and_probe(key: str) -> None:
    with pytest.raises(UnknownValueError) as caught:
        World(MACHINE).get(key, "torch.cuda.power_draw")
    for part in ("box", key, "torch.cuda.power_draw", "machine file"):
        assert part in str(caught.value)


def test_a_device_names_its_own_place() -> None:
    with pytest.raises(UnknownValueError, match=r"devices\.1\.serial"):
        World(MACHINE).devices[1].get("serial", "probe")
    with pytest.raises(UnknownValueError, match=r"other_devices\.0\.serial"):
        World(MACHINE).other_devices[0].get("serial", "probe")


@pytest.mark.parametrize("error", [UnknownValueError("m", "k", "p"), NoAnswerError("m", "p", "why")])
def test_errors_travel_between_processes(error: RuntimeError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_management_libraries_see_cards_by_vendor_and_in_the_order_of_the_bus() -> None:
    world = World(MACHINE)
    assert [card.known("name") for card in world.cards("cuda")] == ["B", "A"]
    assert [card.known("name") for card in world.cards("rocm")] == ["C"]
    assert world.cards("xpu") == []


def test_a_faulty_machine_counts_what_its_file_says() -> None:
    assert World(MACHINE, {}).count() == 2
    assert World({**MACHINE, "fault": {"count": 0}}, {}).count() == 0
    assert World({**MACHINE, "fault": {"count": None}}, {"CUDA_VISIBLE_DEVICES": "1"}).count() == 1


def test_the_environment_is_read_at_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    world = World(MACHINE)
    assert [device.index for device in world.visible()] == [0, 1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [device.index for device in world.visible()] == [1]
