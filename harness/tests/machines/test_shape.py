"""The JSON of a machine has exactly the shape that docs/architecture.md promises to the child."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from masquerade import machines
from masquerade.machines.describe import leaves

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"
NAMES = [name for name in machines.names() if name != "here"]


def documented() -> dict[str, Any]:
    """The example of docs/architecture.md, its comments taken out."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    block = re.search(r'^    \{"id": "mi355x\+aiter",.*?\}\}$', text, re.M | re.S)
    assert block, "docs/architecture.md no longer shows the JSON of a machine"
    plain = re.sub(r'("[^"]*")|#.*', lambda match: match[1] or "", block[0])
    example: dict[str, Any] = json.loads(plain.replace(", ...}", "}"))
    del example["packages"]["stand_ins"]  # put in by a check that declares some, no machine has them
    return example


@pytest.mark.parametrize("name", NAMES)
def test_has_the_documented_keys_and_no_other(name: str) -> None:
    example, shape = documented(), machines.resolve(name).to_json()
    assert list(shape) == list(example)
    for section in ("torch", "driver", "management", "packages", "host"):
        assert list(shape[section]) == list(example[section])
    assert list(shape["host"]["cpu"]) == list(example["host"]["cpu"])
    common = list(example["devices"][0])[: list(example["devices"][0]).index("device_id")]
    expected = list(example["devices"][0]) if shape["platform"] == "xpu" else common
    for device in shape["devices"]:
        assert list(device) == expected
    for device in shape["other_devices"]:
        assert list(device) == [*common, "vendor"]
    if shape["fault"] is not None:
        assert list(shape["fault"]) == list(example["fault"])


def test_present_packages_have_the_documented_keys() -> None:
    example = documented()["packages"]["present"]["aiter"]
    assert list(machines.resolve("mi355x+aiter").packages["present"]["aiter"]) == list(example)


@pytest.mark.parametrize("name", NAMES)
def test_is_plain_json(name: str) -> None:
    shape = machines.resolve(name).to_json()
    assert json.loads(json.dumps(shape, allow_nan=False)) == shape


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_rates_are_numbers_or_unknown(name: str) -> None:
    for device in machines.resolve(name).devices:
        for key, value in device.items():
            if key.endswith(("_size", "_rate", "_memory", "_count", "width")) or key.startswith("shared_memory"):
                assert value in ("unknown", None) or isinstance(value, int), key


def test_here_has_a_platform_and_nothing_else() -> None:
    assert machines.resolve("here").to_json() == {"id": "here", "platform": "here"}


def test_json_is_a_copy() -> None:
    machine = machines.resolve("h200")
    machine.to_json()["devices"][0]["name"] = "changed"
    machine.to_json()["host"]["cpu"]["flags"].clear()
    assert machine.to_json()["devices"][0]["name"] == "NVIDIA H200"
    assert machine.to_json()["host"]["cpu"]["flags"]


@pytest.mark.parametrize("name", [*NAMES, "h200x8", "mi355xx8+aiter-amdsmi", "b580-vllm_xpu_kernels+frobnicator"])
def test_every_leaf_says_where_it_comes_from(name: str) -> None:
    machine = machines.resolve(name)
    sources = machine.sources()
    for key, value in leaves(machine.to_json()):
        source = sources.get(key, "") if key != "id" else "the id is the name asked for"
        assert len(source.split()) >= 3, f"{key} = {value!r} has no readable source: {source!r}"
        assert not re.fullmatch(r"[Ss]\d+(;S\d+)*", source)


def test_no_source_is_kept_for_a_leaf_that_is_not_there() -> None:
    machine = machines.resolve("h200x2+aiter")
    assert set(machine.sources()) <= {key for key, _ in leaves(machine.to_json())}
