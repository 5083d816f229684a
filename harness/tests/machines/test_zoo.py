"""The zoo's own files: each valid by itself, extending what is there, written as the others are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import masquerade
from masquerade import machines
from masquerade.machines import Zoo, describe, resolve
from masquerade.machines.sheet import Sheet, read_sheet

ROOT = Path(masquerade.__file__).parent / "machines"
BASES = {path.stem: path for path in sorted((ROOT / "bases").glob("*.toml"))}
ZOO = {path.stem: path for path in sorted((ROOT / "zoo").glob("*.toml"))}


def sheet(path: Path) -> Sheet:
    return read_sheet(path.read_text(encoding="utf-8"), path.name, path.stem)


@pytest.mark.parametrize("path", [*BASES.values(), *ZOO.values()], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_file_is_valid_and_says_what_it_is(path: Path) -> None:
    read = sheet(path)
    assert read.summary and read.id == path.stem
    for key, fact in read.facts.items():
        assert len(fact.source.split()) >= 3, (key, fact.source)
        assert not re.match(r"S\d+\b", fact.source)
        assert fact.line > 0


@pytest.mark.parametrize("path", ZOO.values(), ids=lambda path: path.stem)
def test_file_has_no_value_that_it_inherits_anyway(path: Path) -> None:
    read = sheet(path)
    for name in read.extends:
        base = sheet(BASES.get(name) or ZOO[name])
        for key in set(read.facts) & set(base.facts):
            assert read.facts[key].value != base.facts[key].value or read.facts[key].source != base.facts[key].source


def test_bases_and_machines_have_names_of_their_own() -> None:
    assert not set(BASES) & set(ZOO)


def test_every_base_is_used() -> None:
    used = {name for path in (*BASES.values(), *ZOO.values()) for name in sheet(path).extends}
    assert set(BASES) <= used


def test_names_are_grouped_by_platform_and_here_is_first() -> None:
    names = machines.names()
    assert names[0] == "here"
    assert set(names[1:]) == set(ZOO)
    platforms = [resolve(name).platform for name in names[1:]]
    assert platforms == sorted(platforms, key=["cuda", "rocm", "xpu", "cpu"].index)


def test_aliases_are_listed_on_demand() -> None:
    assert {"cuda", "h100-sxm"} <= set(machines.names(aliases=True)) - set(machines.names())


def test_all_machines_build() -> None:
    assert [machine.id for machine in Zoo().machines()] == machines.names()


def test_representative_machines_know_what_torch_prints() -> None:
    for name in ("cuda", "rocm", "h200", "mi355x"):
        assert machines.unknown(resolve(name)) == []
    for key in ("name", "total_memory", "device_id", "driver_version", "gpu_eu_count", "has_fp64", "architecture"):
        assert resolve("xpu").devices[0][key] != "unknown"


def test_torch_is_built_for_the_platform_and_its_architectures() -> None:
    for name in set(ZOO):
        machine = resolve(name)
        built = [key for key in ("cuda", "hip", "xpu") if machine.torch[key] is not None]
        assert built == {"cuda": ["cuda"], "rocm": ["hip"], "xpu": ["xpu"], "cpu": []}[machine.platform]
    assert resolve("mi455x").torch["arch_list"] == "unknown", "no wheel with gfx1250 was seen"


def test_the_management_library_names_the_device() -> None:
    assert resolve("h100").devices[0]["market_name"] == "NVIDIA H100 80GB HBM3"
    assert resolve("b580").devices[0]["market_name"] == "Intel(R) Arc(TM) B580 Graphics"
    assert resolve("mi355x").devices[0]["market_name"] == "AMD Instinct MI355 OAM"


@pytest.mark.parametrize(("name", "size"), [("mi300x", 64), ("mi355x", 160), ("gfx1250", 320), ("rx9070xt", 64)])
def test_a_block_on_amd_may_use_the_whole_lds(name: str, size: int) -> None:
    device = resolve(name).devices[0]
    for key in ("", "_optin"):
        assert device[f"shared_memory_per_block{key}"] == size * 1024
    assert device["shared_memory_per_multiprocessor"] == size * 1024


def test_rows_say_values_as_people_do() -> None:
    rows = {row.key: row for row in describe(resolve("h200x2"))}
    assert rows["devices.1.total_memory"].text == "143156 MiB"
    assert rows["devices.0.clock_rate"].text == "1980 MHz"
    assert rows["devices.0.shared_memory_per_block_optin"].text == "227 KiB"
    assert rows["torch.hip"].text == "none"
    assert rows["host.torch_cpu._is_amx_tile_supported"].text == "yes"
    assert rows["devices.0.capability"].section == "devices"
    assert all(row.source for row in rows.values())
    assert describe(machines.HERE)[0].key == "platform"
