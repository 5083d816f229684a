"""Triton kernels that are really compiled for a machine that is not here, and never launched."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest
from cases import told

from conftest import Run

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

SOURCE = """\
import torch, triton, triton.language as tl

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
def wrong(a, N: tl.constexpr):
    x = tl.arange(0, N)
    tl.store(a + x, x)

tuned = triton.autotune([triton.Config({"BK": 32}), triton.Config({"BK": 512}, num_stages=4)], key=["K"])(gemm)

def tensors():
    a = torch.empty(64, 64, device="cuda", dtype=torch.bfloat16)
    return a, a, torch.empty(64, 64, device="cuda")

def launch(bk=32, **options):
    for _ in range(3):
        gemm[(1,)](*tensors(), 64, BM=64, BN=64, BK=bk, **options)

def too_large():
    gemm[(1,)](*tensors(), 512, BM=64, BN=64, BK=128, num_stages=4)

def swallowed():
    try:
        wrong[(1,)](torch.empty(64, device="cuda"), 100)
    except Exception as error:
        return type(error).__name__

def raised():
    wrong[(1,)](torch.empty(64, device="cuda"), 100)

def tune():
    tuned[(1,)](*tensors(), 512, BM=64, BN=64)
    return tuned.best_config.kwargs["BK"]

def resources():
    kernel = gemm[(1,)](*tensors(), 64, BM=64, BN=64, BK=32)
    with open(FILE, "wb") as file:
        file.write(kernel.asm["cubin"])
    return [kernel.n_regs, kernel.n_spills]
"""


def line(text: str) -> int:
    return 1 + next(number for number, row in enumerate(SOURCE.splitlines()) if text in row)


@pytest.mark.parametrize(
    ("machine", "target", "family", "limit"),
    [("h200", "cuda:90", "wgmma bf16", 232448), ("mi300x", "hip:gfx942", "mfma bf16", 65536)],
)
def test_a_launch_is_told_with_what_it_was_compiled_to(run: Run, machine, target, family, limit) -> None:
    record = run(SOURCE, "subject:launch", on=machine, kwargs={"num_warps": 4})
    assert record.verdict == "ok", told(record)
    [launch] = record.launches  # three times the same
    assert (launch["kernel"], launch["target"], launch["shared_limit"]) == ("gemm", target, limit)
    assert list(launch["instructions"]) == [family]
    assert launch["line"]["line"] == line("gemm[(1,)](*tensors(), 64, BM=64, BN=64, BK=bk")
    assert launch["place"] == {"file": "subject.py", "line": line("@triton.jit")}
    assert launch["signature"]["a"] == "*bf16" and launch["constants"]["BK"] == "32"
    assert launch["num_warps"] == 4 and launch["spills"] == 0 and 16 < launch["registers"] < 256
    assert 0 < launch["shared"] <= limit and launch["pruned"] == ""


def test_what_fits_on_one_arch_and_not_on_another(run: Run) -> None:
    record = run(SOURCE, "subject:too_large", on="mi300x")
    [finding] = record.findings  # and not the exception besides
    assert (finding.kind, finding.what, finding.phase) == ("out-of-resources", "gemm", "call")
    assert finding.blame is not None and finding.blame.line == line("gemm[(1,)](*tensors(), 512")
    assert finding.message.endswith("of shared memory, and the limit is 65536")
    assert run(SOURCE, "subject:too_large", on="mi355x").verdict == "ok"


@pytest.mark.parametrize("how", ["swallowed", "raised"])
def test_a_kernel_that_does_not_compile(run: Run, how: str) -> None:
    record = run(SOURCE, f"subject:{how}", on="h200")
    [finding] = record.findings
    assert (finding.kind, finding.what) == ("compile-error", "wrong")
    assert finding.message == "arange's range must be a power of 2 (line 2 of the kernel: x = tl.arange(0, N))"
    assert finding.blame is not None and finding.blame.code.startswith("wrong[(1,)]")


def test_an_autotuned_kernel_is_compiled_in_each_configuration(run: Run) -> None:
    record = run(SOURCE, "subject:tune", on="h200")
    assert (record.verdict, record.result) == ("ok", 32), told(record)
    by_bk = {launch["constants"]["BK"]: launch["pruned"] for launch in record.launches}
    assert by_bk["32"] == "" and "of shared memory, and the limit is 232448" in by_bk["512"]


AHEAD = """\
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def copy(a, b):
    triton.language.store(b, triton.language.load(a))

source = ASTSource(copy, {"a": "*fp32", "b": "*fp32"}, {})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
"""


def test_compiling_ahead_of_time_opens_no_device(run: Run) -> None:
    record = run(AHEAD, on="h200")
    assert (record.verdict, record.touch) == ("ok", "clean"), told(record)


ASSERTS = """\
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=[])
@triton.jit
def fill(a, B: tl.constexpr):
    tl.static_assert(B <= 64)
    tl.store(a + tl.arange(0, B), 1.0)

def launch():
    fill[(1,)](torch.empty(128, device="cuda"))
"""


def test_a_configuration_that_is_dropped_on_purpose_is_no_finding(run: Run) -> None:
    record = run(ASSERTS, "subject:launch", on="h200")
    assert record.verdict == "ok", told(record)
    pruned = {launch["constants"]["B"]: bool(launch["pruned"]) for launch in record.launches}
    assert pruned == {"64": False, "128": True}


OLD = """\
class CompiledKernel:
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

def compile(src):
    return CompiledKernel()
"""


def test_a_triton_of_another_shape_is_left_alone(run: Run, tmp_path: Path) -> None:
    package = {"triton/__init__.py": "", "triton/compiler/__init__.py": "", "triton/compiler/compiler.py": OLD}
    (tmp_path / "old").mkdir()
    for name, text in package.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    record = run("import triton.compiler.compiler\n", on="h200")
    assert record.verdict == "ok", told(record)


@pytest.mark.parametrize("machine", ["a100", "h200", "b200", "rtx5090"])
def test_registers_and_spills_are_those_that_cuobjdump_reads(run: Run, tmp_path: Path, machine: str) -> None:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    record = run(SOURCE.replace("FILE", repr(str(tmp_path / "k.cubin"))), "subject:resources", on=machine)
    told_by = subprocess.run([tool, "--dump-resource-usage", tmp_path / "k.cubin"], capture_output=True, text=True)
    numbers = dict(word.split(":") for word in told_by.stdout.split() if word.startswith(("REG:", "STACK:")))
    assert record.result == [int(numbers["REG"]), int(numbers["STACK"]) // 4], told(record)
