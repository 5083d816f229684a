"""torch's answers about a CPU, derived from its flags, are the answers that torch gave on such CPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from masquerade import machines
from masquerade.machines.cpu import PROBES, torch_answers

#: Read on two machines, with torch 2.13 and 2.11: the flags of /proc/cpuinfo and torch._C._cpu._get_cpu_capability().
READ = json.loads((Path(__file__).parent / "cpus.json").read_text(encoding="utf-8"))
MEASURED = {"l1d_cache_size", "l2_cache_size", "num_logical_cores", "num_physical_cores", "num_sockets", "cpu_name"}


def probes(name: str) -> dict[str, Any]:
    return dict(machines.resolve(name).host["torch_cpu"])


@pytest.mark.parametrize("cpu", READ)
def test_derived_answers_are_those_of_torch(cpu: str) -> None:
    read = READ[cpu]
    answers = torch_answers("x86_64", read["flags"].split(), {})
    expected = {key: value for key, value in read["capabilities"].items() if key not in MEASURED}
    assert answers["_get_cpu_capability"] == expected
    assert answers["get_cpu_capability"] == read["level"]


@pytest.mark.parametrize("name", [name for name in machines.names() if name != "here"])
def test_all_probes_are_answered(name: str) -> None:
    answers = probes(name)
    assert list(answers) == [*PROBES, "get_cpu_capability", "_get_cpu_capability"]
    assert all(value == "unknown" or isinstance(value, bool) for value in list(answers.values())[: len(PROBES)])


@pytest.mark.parametrize(
    ("name", "amx", "amx_fp16", "avx512", "avx512_bf16", "avx2", "level"),
    [
        ("spr", True, False, True, True, True, "AVX512"),
        ("gnr", True, True, True, True, True, "AVX512"),
        ("epyc-9655", False, False, True, True, True, "AVX512"),
        ("ryzen-5950x", False, False, False, False, True, "AVX2"),
        ("graviton4", False, False, False, False, False, "unknown"),
        ("apple-m", False, False, False, False, False, "DEFAULT"),
        ("power10", False, False, False, False, False, "VSX"),
        ("s390x", False, False, False, False, False, "Z VECTOR"),
        ("riscv", False, False, False, False, False, "unknown"),
    ],
)
def test_what_each_cpu_can_do(
    name: str, amx: bool, amx_fp16: bool, avx512: bool, avx512_bf16: bool, avx2: bool, level: str
) -> None:
    answers = probes(name)
    assert answers["_is_amx_tile_supported"] is amx
    assert answers["_init_amx"] is amx
    assert answers["_is_amx_fp16_supported"] is amx_fp16
    assert answers["_is_avx512_supported"] is avx512
    assert answers["_is_avx512_bf16_supported"] is avx512_bf16
    assert answers["_is_avx2_supported"] is avx2
    assert answers["get_cpu_capability"] == level


def test_arm_capabilities_come_from_linux_and_from_macos() -> None:
    graviton = probes("graviton4")["_get_cpu_capability"]
    assert (graviton["architecture"], graviton["sve2"], graviton["sve_max_length"]) == ("arm64", True, 128)
    apple = probes("apple-m")["_get_cpu_capability"]
    assert (apple["architecture"], apple["sve"], apple["bf16"], apple["sme2"]) == ("arm64", False, True, True)
    assert probes("graviton4")["_is_arm_sve_supported"] and not probes("apple-m")["_is_arm_sve_supported"]


def test_256_bit_sve_has_kernels_of_its_own() -> None:
    answers = torch_answers("aarch64", ["asimd", "sve", "bf16"], {"sve_max_length": 256})
    assert answers["get_cpu_capability"] == "SVE256"


def test_unknown_flags_make_unknown_answers_and_not_no() -> None:
    answers = torch_answers("x86_64", None, {})
    assert set(answers.values()) == {"unknown"}
    assert probes("strixhalo")["_is_avx512_supported"] == "unknown"


def test_hosts_of_other_systems() -> None:
    assert machines.resolve("apple-m").host["system"] == "Darwin"
    assert machines.resolve("s390x").host["machine"] == "s390x"
    for name in ("gh200", "gb300", "gb10", "thor"):
        assert machines.resolve(name).host["machine"] == "aarch64"
        assert "sm_110" in machines.resolve(name).torch["arch_list"]
    assert machines.resolve("h100").host["machine"] == "x86_64"
