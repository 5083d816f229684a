"""On a host with two cards, a launcher runs on the card of its tensors, and leaves the current device as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMES = ("fp8 gemm", "fp8 gemm, portable", "quantization", "mx linear", "moe", "moe, not fused")


@pytest.mark.parametrize("name", NAMES)
def test_a_launch_is_on_the_tensors_card(name, stage):
    record = stage.run("second_device:launched_on", args=[name], on="h200x2", path=[HERE, HERE.parent])
    assert record.verdict == "ok", record.findings
    *launches, after = record.result
    assert launches and set(launches) == {1} and after == 0
