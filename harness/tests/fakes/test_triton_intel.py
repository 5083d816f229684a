"""Triton for Intel's GPUs: what its driver is told of the machine, and kernels that triton-xpu really compiles."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from cases import told

from conftest import Run
from masquerade import machines
from masquerade.fakes.triton_intel import ArchParser, modules, utils
from masquerade.fakes.world import NoAnswerError, UnknownValueError, World


def has_backend() -> bool:
    found = importlib.util.find_spec("triton")
    return any(Path(place, "backends/intel").is_dir() for place in (found and found.submodule_search_locations) or ())


needs_compiler = pytest.mark.skipif(not has_backend(), reason="needs triton-xpu: `tox run -e codegen-xpu` brings it")


def world(name: str) -> World:
    return World(machines.resolve(name).to_json())


# -- what the driver is told -------------------------------------------------------------------------------------------


def test_properties_are_the_machines_in_level_zeros_units() -> None:
    found = utils(world("max1550"))().get_device_properties(0)
    assert (found["max_shared_mem"], found["multiprocessor_count"], found["sub_group_sizes"]) == (131072, 64, (16, 32))
    assert found["mem_clock_rate"] == 3200  # MHz, where the machine has kHz


def test_a_value_that_nobody_read_is_named_and_not_made_up() -> None:
    found = utils(world("b580"))().get_device_properties(0)
    with pytest.raises(UnknownValueError, match=r"devices\.0\.local_mem_size, which machine b580 does not know"):
        found["max_shared_mem"]
    with pytest.raises(KeyError):
        found["no_such_property"]


def test_the_arch_is_named_by_its_number_as_the_parser_does() -> None:
    for name, arch in (("max1550", "pvc"), ("b60", "bmg"), ("a770", "dg2")):
        here = world(name)
        assert ArchParser(here).parse_device_arch(here.devices[0].get("architecture")) == arch
    assert ArchParser(world("b60")).parse_device_arch(1) == ""


def test_nothing_else_that_the_driver_would_build_is_answered() -> None:
    with pytest.raises(NoAnswerError, match="compile_module_from_src"):
        modules(world("b60"))("source", "spirv_utils")
    with pytest.raises(NoAnswerError, match="init_context"):
        utils(world("b60"))().init_context(0)


def test_what_only_the_card_compiles_is_not_told() -> None:
    assert utils(world("b60"))().load_binary("kernel", b"", 0, "", 0)[2:] == (-1, -1)


# -- the real compiler -------------------------------------------------------------------------------------------------

SOURCE = """\
import re, torch, triton, triton.language as tl

@triton.jit
def gemm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * BN + rn[None, :])
        acc += tl.dot(x, y)
    tl.store(c + rm[:, None] * BN + rn[None, :], acc)

@triton.jit
def blocks(a, b, c, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    x = tl.make_block_ptr(a, (BM, K), (K, 1), (0, 0), (BM, BK), (1, 0))
    y = tl.make_block_ptr(b, (K, N), (N, 1), (0, 0), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(x), tl.load(y))
        x, y = tl.advance(x, (0, BK)), tl.advance(y, (BK, 0))
    tl.store(tl.make_block_ptr(c, (BM, N), (N, 1), (0, 0), (BM, BN), (1, 0)), acc)

tuned = triton.autotune([triton.Config({"BK": 32}), triton.Config({"BK": 1024})], key=["K"])(gemm)

def tensors(dtype, device="xpu"):
    a = torch.empty(64, 64, device=device, dtype=getattr(torch, dtype))
    return a, a, torch.empty(64, 64, device=device)

def launch(dtype="bfloat16", device="xpu"):
    for _ in range(2):
        kernel = gemm[(1,)](*tensors(dtype, device), 64, BM=64, BN=64, BK=32)
    return sorted(kernel.asm)

def of_blocks(dtype="bfloat16"):
    text = blocks[(1,)](*tensors(dtype), 64, 64, BM=64, BN=64, BK=32).asm["llir"]
    calls = re.findall(r"call [^@\\n]*@_Z\\d+intel_sub_group_(2d_block|\\w+?_matrix_mad)", text)
    return [calls.count("2d_block"), sum(call != "2d_block" for call in calls)]

def too_large():
    gemm[(1,)](*tensors("float32"), 512, BM=128, BN=128, BK=256)

def tune():
    tuned[(1,)](*tensors("bfloat16"), 1024, BM=64, BN=64)
    return tuned.best_config.kwargs["BK"]

def key():
    return triton.compiler.compiler.triton_key()
"""


@pytest.fixture
def compiled(run: Run, tmp_path: Path):
    def compiled(function: str, on: str, *args: Any) -> Any:
        cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
        return run(SOURCE, f"subject:{function}", on=on, args=list(args), env=cache, timeout=120)

    return compiled


@needs_compiler
@pytest.mark.parametrize(
    ("machine", "name"), [("max1550", "Data Center GPU Max 1550"), ("b60", "Arc(TM) Pro B60 Graphics")]
)
def test_a_kernel_is_compiled_to_spirv_and_its_launch_is_told_once(compiled, machine: str, name: str) -> None:
    record = compiled("launch", machine)
    assert (record.verdict, record.result) == ("ok", ["llir", "spv", "ttgir", "ttir"]), told(record)
    [launch] = record.launches  # twice the same
    assert (launch["kernel"], launch["target"]) == ("gemm", f"xpu:Intel(R) {name}")
    assert list(launch["instructions"]) == ["dpas bf16"]
    assert 0 < launch["shared"] < launch["shared_limit"] == 131072
    assert "registers" not in launch and "spills" not in launch


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "family"), [("float16", "f16"), ("float32", "tf32"), ("int8", "i8"), ("float8_e5m2", "f16")]
)
def test_operands_name_the_family(compiled, dtype: str, family: str) -> None:
    assert list(compiled("launch", "max1550", dtype).launches[0]["instructions"]) == [f"dpas {family}"]


@needs_compiler
def test_counts_are_those_of_the_llvm_ir(compiled) -> None:
    record = compiled("of_blocks", "b60")
    blocks, products = record.result
    assert record.launches[0]["instructions"] == {"2D block io": blocks, "dpas bf16": products} and blocks, told(record)


@needs_compiler
def test_a_kernel_that_needs_more_than_the_card_has(compiled) -> None:
    record = compiled("too_large", "b60")
    [finding] = record.findings
    assert (finding.kind, finding.what) == ("out-of-resources", "gemm")
    assert finding.message.endswith("of shared memory, and the limit is 131072")


@needs_compiler
def test_an_autotuned_kernel_is_compiled_in_each_configuration(compiled) -> None:
    record = compiled("tune", "b60")
    assert (record.verdict, record.result) == ("ok", 32), told(record)
    assert {launch["constants"]["BK"]: bool(launch["pruned"]) for launch in record.launches} == {
        "32": False,
        "1024": True,
    }


@needs_compiler
def test_a_card_whose_shared_memory_is_unknown_is_told_by_name(compiled) -> None:
    record = compiled("launch", "b580")
    assert "devices.0.local_mem_size" in record.worst.message, told(record)


@needs_compiler
def test_drivers_that_are_executed_past_the_import_system_are_answered_too(run: Run) -> None:
    # As every Triton before 3.4 does with all of its backends.
    limits = "return triton.runtime.driver.active.utils.get_device_properties(0)['max_shared_mem']"
    source = f"import triton\ndef limit():\n    {limits}"
    for machine, limit in (("a100", 166912), ("mi300x", 65536), ("b60", 131072)):
        record = run(source, "subject:limit", on=machine)
        assert (record.verdict, record.result) == ("ok", limit), told(record)


@needs_compiler
def test_the_key_of_its_cache_is_the_cheap_one(compiled) -> None:
    assert compiled("key", "b60").result.startswith("masquerade-")
