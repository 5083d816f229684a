"""Triton on a faked machine: a kernel is compiled for its arch and not launched."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from conftest import write
from masquerade.stage import Record, Stage

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")

KERNEL = """\
import torch, triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)

@triton.jit
def product(a, b, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tile = at[:, None] * BLOCK + at[None, :]
    tl.store(out + tile, tl.dot(tl.load(a + tile), tl.load(b + tile)))

def launch():
    x = torch.ones(1000, device="cuda")
    compiled = add[(4,)](x, x, torch.empty_like(x), 1000, BLOCK=256)
    target = compiled.metadata.target
    return [target.backend, str(target.arch), target.warp_size, sorted(compiled.asm), text(compiled)]

def launch_product(size=32, dtype="float16"):
    a = torch.ones(size, size, device="cuda", dtype=getattr(torch, dtype))
    compiled = product[(1,)](a, a, torch.empty(size, size, device="cuda"), BLOCK=size)
    return text(compiled)

def text(compiled):
    return (compiled.asm.get("ptx") or compiled.asm["amdgcn"])[:200000]

def target():
    found = triton.runtime.driver.active.get_current_target()
    return [found.backend, str(found.arch), found.warp_size]

def missing():
    try: triton.runtime.driver.active.utils.get_device_properties(1)
    except RuntimeError as error: return str(error)

def properties():
    utils, out = triton.runtime.driver.active.utils, {}
    known = utils.get_device_properties(0)
    for name in ("max_shared_mem", "multiprocessor_count", "warpSize"):
        out[name] = known.get(name)
    return out
"""


@pytest.fixture
def kernel(one: Stage, tmp_path: Path):
    write(tmp_path, {"kernels.py": KERNEL})

    def kernel(function: str, on: str, **options: object) -> Record:
        cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
        record = one.run(f"kernels:{function}", on=on, path=[tmp_path], env=cache, timeout=120, **options)
        found = [(f.kind, f.what, f.message, f.stack[-4:]) for f in record.findings]
        assert record.verdict == "ok", (found, record.output)
        return record

    return kernel


@pytest.mark.parametrize(
    ("machine", "target", "binary", "says"),
    [
        ("h200", ["cuda", "90", 32], "cubin", ".target sm_90a"),
        ("b200", ["cuda", "100", 32], "cubin", ".target sm_100a"),
        ("mi300x", ["hip", "gfx942", 64], "hsaco", "-gfx942"),
        ("mi355x", ["hip", "gfx950", 64], "hsaco", "-gfx950"),
    ],
)
def test_a_kernel_is_compiled_for_the_machine(
    kernel, machine: str, target: list[object], binary: str, says: str
) -> None:
    backend, arch, warp, asm, text = kernel("launch", machine).result
    assert [backend, arch, warp] == target
    assert binary in asm and says in text


@pytest.mark.parametrize(
    ("machine", "instruction"), [("h200", "mma.sync"), ("mi300x", "v_mfma_f32"), ("mi355x", "v_mfma_f32")]
)
def test_a_dot_becomes_the_machines_matrix_instruction(kernel, machine: str, instruction: str) -> None:
    assert instruction in kernel("launch_product", machine).result


def test_the_driver_knows_the_machine(kernel) -> None:
    expected = {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}
    assert kernel("properties", "h200").result == expected
    assert kernel("target", "mi355x").result == ["hip", "gfx950", 64]
    assert kernel("missing", "h200").result == "Triton Error [CUDA]: invalid device ordinal"


def test_a_kernel_that_needs_more_shared_memory_than_the_machine_has(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"kernels.py": KERNEL})
    record = one.run("kernels:launch_product", on="rtx4090", args=[128, "float32"], path=[tmp_path], timeout=120)
    assert (record.verdict, record.worst.what) == ("out-of-resources", "product"), record.worst


@pytest.mark.parametrize("machine", ["b580", "spr", "cuda-driver-missing"])
def test_a_machine_without_a_driver_of_triton_has_none(one: Stage, tmp_path: Path, machine: str) -> None:
    write(tmp_path, {"kernels.py": KERNEL})
    record = one.run("kernels:target", on=machine, path=[tmp_path])
    assert record.verdict == "call-mismatch", record.worst
    assert "active drivers" in record.worst.message, record.worst


def test_importing_triton_and_decorating_opens_no_device(one: Stage, tmp_path: Path) -> None:
    write(tmp_path, {"kernels.py": KERNEL})
    for machine in ("h200", "mi355x", "b580", "spr"):
        record = one.run("kernels", on=machine, path=[tmp_path])
        assert (record.verdict, record.touch) == ("ok", "clean"), record.findings
