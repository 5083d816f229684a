"""How the cards of a host are linked, and cuDNN: values that fakes are asked for, which a machine's file can state."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.machines import MachineError, load_file, resolve

STATED = """\
extends = "h200"
[[facts]]
source = "nvidia-smi topo -m and torch on our host"
interconnect = "NV18"
peer_access = true
torch.cudnn = 91002
"""


def test_they_can_be_stated(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(STATED, encoding="utf-8")
    shape = load_file(tmp_path / "ours.toml").to_json()
    assert (shape["interconnect"], shape["peer_access"], shape["torch"]["cudnn"]) == ("NV18", True, 91002)


def test_they_are_unknown_until_somebody_reads_them() -> None:
    shape = resolve("h200x2").to_json()
    assert (shape["interconnect"], shape["peer_access"]) == ("unknown", "unknown")


@pytest.mark.parametrize("name", ["h200", "mi355x", "cpu"])
def test_nothing_lies_between_fewer_than_two_devices(name: str) -> None:
    shape = resolve(name).to_json()
    assert (shape["interconnect"], shape["peer_access"]) == (None, None)


@pytest.mark.parametrize("name", ["cpu", "b580"])
def test_a_build_for_neither_vendor_has_no_cudnn(name: str) -> None:
    assert resolve(name).torch["cudnn"] is None


def test_they_are_checked(tmp_path: Path) -> None:
    wrong = STATED.replace("true", '"yes"').replace("91002", '"9.10"')
    (tmp_path / "ours.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(MachineError) as caught:
        load_file(tmp_path / "ours.toml")
    assert [problem.message.partition(",")[0] for problem in caught.value.problems] == [
        "peer_access: expected true or false",
        "torch.cudnn: expected a whole number",
    ]
