"""Roads into the device that go through C++ alone: each is answered, seen when it happens, and blamed on its line."""

from __future__ import annotations

import re
from typing import Any

import pytest

#: expression -> (verdict of its import on the platform, device, shape, dtype). D is the device type.
ROADS: dict[str, tuple[str, str, list[int], str]] = {
    "torch.empty(4, pin_memory=True)": ("device-init", "cpu", [4], "float32"),
    "torch.zeros(2, 3, pin_memory=True)": ("device-init", "cpu", [2, 3], "float32"),
    "torch.tensor([1, 2], pin_memory=True)": ("device-init", "cpu", [2], "int64"),
    "torch.empty(2, device=0)": ("device-init", "D:0", [2], "float32"),
    "torch.ones(2).to(0)": ("device-init", "D:0", [2], "float32"),
    "torch.ones(2).to(0, torch.float16)": ("device-init", "D:0", [2], "float16"),
    "torch.ops.aten.empty.memory_format([2], device=D)": ("device-init", "D:0", [2], "float32"),
    "torch.ops.aten.full.default([2], 3, device=torch.device(D))": ("device-init", "D:0", [2], "int64"),
    "torch.jit.script(on_device)(torch.device(D))": ("device-init", "D:0", [2], "float32"),
    "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=D)": ("device-init", "D:0", [2, -1], "float32"),
}

#: The same for CUDA and ROCm alone: torch has these names for no other device.
CUDA_ROADS: dict[str, tuple[str, str, list[int], str]] = {
    "torch.cuda.FloatTensor(2)": ("device-init", "D:0", [2], "float32"),
    "torch.cuda.HalfTensor([1, 2, 3])": ("device-init", "D:0", [3], "float16"),
    "torch.ones(2).type('torch.cuda.DoubleTensor')": ("device-init", "D:0", [2], "float64"),
    "torch.ones(2).type(torch.cuda.LongTensor)": ("device-init", "D:0", [2], "int64"),
    "by_default_type(torch.cuda.HalfTensor)": ("device-init", "D:0", [1], "float16"),
    "by_default_type('torch.cuda.FloatTensor')": ("device-init", "D:0", [1], "float32"),
}

#: What makes no tensor -> the verdict of its import.
OTHERS = {
    "torch.Stream(device=D)": "device-init",
    "torch.Stream(torch.device(D, 0))": "device-init",
    "GRAPH()": "fork-poison",
    "MODULE.MemPool()": "fork-poison",
}

#: What opens no device, and is no error -> its value.
CLEAN = {
    "str(torch.device(0))": "D:0",
    "torch.empty(2, device='meta').shape[0]": 2,
    "len(MODULE.graph_pool_handle())": 2,
    "MODULE.graph_pool_handle() == MODULE.graph_pool_handle()": False,
}

#: The same for XPU alone: CUDA's runtime is asked for the stream, and starts.
XPU_CLEAN = {"MODULE.is_current_stream_capturing()": False}

HELPERS = """\
import torch

def on_device(where: torch.device):
    return torch.ones(2, device=where)

def by_default_type(kind):
    torch.set_default_tensor_type(kind)
    try:
        return torch.empty(1)
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)

def tell(made):
    if isinstance(made, torch.Tensor):
        # The second size of a ragged tensor is none.
        shape = [made.size(0), -1] if made.is_nested else list(made.shape)
        return [str(made.device), shape, str(made.dtype).removeprefix("torch.")]
    return made
"""

KINDS = [("h100", "cuda"), ("mi300x", "cuda"), ("b580", "xpu")]


def worded(expression: str, kind: str) -> str:
    """The expression in words of the device type `kind`."""
    graph = {"cuda": "torch.cuda.CUDAGraph", "xpu": "torch.xpu.XPUGraph"}[kind]
    expression = expression.replace("GRAPH", graph).replace("MODULE", f"torch.{kind}")
    return expression.replace("=D", f"='{kind}'").replace("(D", f"('{kind}'")


def roads(kind: str) -> dict[str, tuple[str, str, list[int], str]]:
    return {**ROADS, **(CUDA_ROADS if kind == "cuda" else {})}


@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_each_road_gives_what_it_gives_there(ask, machine: str, kind: str) -> None:
    expressions = [worded(each, kind) for each in roads(kind)]
    source = HELPERS + (
        "def answer(expressions):\n"
        "    out = []\n"
        "    for text in expressions:\n"
        "        try: out.append(tell(eval(text)))\n"
        "        except Exception as error: out.append(f'{type(error).__name__}: {error}')\n"
        "    return out\n"
    )
    told = dict(zip(expressions, ask(source, on=machine, args=[expressions]), strict=True))
    want: dict[str, Any] = {
        worded(text, kind): [where.replace("D", kind), shape, dtype]
        for text, (_, where, shape, dtype) in roads(kind).items()
    }
    assert {text: (said, want[text]) for text, said in told.items() if said != want[text]} == {}


def scanned(torch_stage, tmp_path, expressions: list[str], machine: str) -> dict[str, tuple[str, str]]:
    """The verdict and the blamed line of a module for each expression, whose exceptions it swallows."""
    out = {}
    for number, expression in enumerate(expressions):
        (tmp_path / f"road_{number}.py").write_text(
            f"{HELPERS}\ntry:\n    X = {expression}\nexcept Exception:\n    X = None\n"
        )
        record = torch_stage.run(f"road_{number}", on=machine, path=[tmp_path])
        blames = {str(finding.blame) for finding in record.findings}
        line = HELPERS.count("\n") + 3
        # A default type is used one line deeper.
        own = {f"road_{number}.py:{line}"} if "by_default" not in expression else blames
        assert blames == own or record.verdict == "ok", (expression, blames)
        out[expression] = (record.verdict, record.touch)
    return out


@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_each_road_is_seen(torch_stage, tmp_path, machine: str, kind: str) -> None:
    want = {worded(text, kind): row[0] for text, row in roads(kind).items()}
    want |= {worded(text, kind): verdict for text, verdict in OTHERS.items()}
    told = scanned(torch_stage, tmp_path, list(want), machine)
    assert {text: said for text, said in told.items() if said != (want[text], want[text])} == {}


#: What names a device of another vendor, or one where there is none: as with torch.empty(2, device="cuda").
FOREIGN = [
    text for text in {**ROADS, **CUDA_ROADS, **OTHERS} if any(word in text for word in ("D)", "cuda.", "MODULE"))
]


@pytest.mark.parametrize(("machine", "kind"), [("cpu", "cuda"), ("cpu", "xpu"), ("b580", "cuda"), ("h100", "xpu")])
def test_the_attempt_is_the_event_where_no_such_device_is(torch_stage, tmp_path, machine: str, kind: str) -> None:
    names = [text for text in FOREIGN if text not in CUDA_ROADS or kind == "cuda"]
    want = {worded(text, kind): {**OTHERS}.get(text, "device-init") for text in names}
    assert len(want) >= 6
    told = scanned(torch_stage, tmp_path, list(want), machine)
    assert {text: said for text, said in told.items() if said != (want[text], want[text])} == {}


@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_what_opens_no_device_answers_and_is_clean(torch_stage, tmp_path, machine: str, kind: str) -> None:
    chosen = {**CLEAN, **(XPU_CLEAN if kind == "xpu" else {})}
    values = {worded(text, kind): kind + ":0" if value == "D:0" else value for text, value in chosen.items()}
    lines = "".join(f"assert ({text}) == {value!r}, {text}\n" for text, value in values.items())
    (tmp_path / "clean.py").write_text(f"import torch\n{lines}")
    record = torch_stage.run("clean", on=machine, path=[tmp_path])
    assert (record.verdict, record.touch) == ("ok", "clean"), [(f.kind, f.what, f.message) for f in record.findings]


@pytest.mark.parametrize(
    "expression", ["torch.device(0)", "torch.empty(2, device=0)", "torch.empty(2, pin_memory=True)"]
)
def test_no_accelerator_is_torchs_own_error_on_a_cpu_machine(torch_stage, tmp_path, expression: str) -> None:
    """A device by its number alone names no vendor's: torch looks for none and says so."""
    (tmp_path / "none.py").write_text(f"import torch\n{expression}\n")
    record = torch_stage.run("none", on="cpu", path=[tmp_path])
    assert (record.verdict, record.touch) == ("import-error", "clean")
    assert "accelerator" in record.worst.message


def test_profiler_ranges(ask) -> None:
    source = """\
    import torch
    def answer():
        nvtx = torch.cuda.nvtx
        with nvtx.range("a {}", 1):
            depths = [nvtx.range_push("b"), nvtx.range_push("c"), nvtx.range_pop(), nvtx.range_pop()]
        nvtx.mark("x"); nvtx.range_end(nvtx.range_start("y"))
        return depths
    """
    # NVTX_NO_PUSH_POP_TRACKING where no profiler listens; ROCTx counts for itself.
    assert ask(source, on="h100") == [-2, -2, -2, -2]
    assert ask(source, on="mi300x") == [1, 2, 2, 1]


def test_pinned_memory_is_told_from_other_memory(ask) -> None:
    source = """\
    import torch
    def answer():
        pinned = torch.empty(4, pin_memory=True)
        return [pinned.is_pinned(), pinned[1:].is_pinned(), torch.zeros_like(pinned).is_pinned(),
                torch.zeros_like(pinned, pin_memory=True).is_pinned(), (pinned + 1).is_pinned(),
                pinned.resize_(9000).is_pinned(), pinned.pin_memory() is pinned]
    """
    for machine in ("h100", "b580"):
        assert ask(source, on=machine) == [True, True, False, True, False, True, True]


def test_pinned_memory_in_a_poisoned_fork_raises_and_does_not_crash(ask) -> None:
    source = """\
    import os, torch
    def answer():
        torch.empty(2, pin_memory=True)
        pid = os.fork()
        if pid == 0:
            try: torch.empty(2, pin_memory=True)
            except RuntimeError: os._exit(3)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    """
    assert ask(source) == 3


@pytest.mark.parametrize("machine", ["cuda-zero-devices", "rocm-zero-devices", "xpu-zero-devices"])
@pytest.mark.parametrize("expression", ["torch.empty(2, pin_memory=True)", "torch.empty(2, device=0)"])
def test_a_host_with_no_device_to_use_raises(torch_stage, tmp_path, machine: str, expression: str) -> None:
    (tmp_path / "none.py").write_text(f"import torch\n{expression}\n")
    record = torch_stage.run("none", on=machine, path=[tmp_path])
    assert {finding.kind for finding in record.findings} == {"device-init", "import-error"}
    assert {str(finding.blame) for finding in record.findings} == {"none.py:2"}


def test_torch_on_the_host_goes_on_as_ever(ask) -> None:
    """C++ asks for the accelerator in the backward, the profiler and the loader too."""
    source = """\
    import threading, torch
    def answer():
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        def step():
            optimizer.zero_grad(); model(torch.ones(2, 4)).sum().backward(); optimizer.step()
        threads = [threading.Thread(target=step) for _ in range(3)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        with torch.profiler.profile(): torch.ones(3) + 1
        loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2, pin_memory=True)
        return [model.weight.grad is not None, "PyTorch" in torch.__config__.show(), [b.is_pinned() for b in loader]]
    """
    for machine in ("h100", "mi300x", "b580"):
        assert ask(source, on=machine) == [True, True, [True, True]]


def test_graphs_and_pools_have_names_and_no_more(ask) -> None:
    source = """\
    import torch
    def answer():
        pools = [torch.cuda.MemPool(), torch.cuda.MemPool()]
        with torch.cuda.use_mem_pool(pools[0]): torch.empty(2, device="cuda")
        graph = torch.cuda.CUDAGraph()
        graph.reset()
        try: graph.replay()
        except RuntimeError as error: said = f"{type(error).__name__}: {error}"
        return [pools[0].id != pools[1].id, isinstance(torch.Stream(device="cuda"), torch.Stream), said]
    """
    told = ask(source)
    assert told[:2] == [True, True]
    # Newer releases instantiate a graph first.
    assert re.match(r"NoAnswerError: torch\.cuda\.CUDAGraph\.(replay|instantiate) was called on", told[2])


@pytest.mark.parametrize("machine", ["cuda", "rocm", "xpu", "cpu"])
def test_no_call_of_torch_ends_the_process(torch_stage, tmp_path, machine: str) -> None:
    (tmp_path / "fuzz.py").write_text(
        HELPERS
        + """
import warnings

def answer(devices):
    warnings.simplefilter("ignore")
    functions = [getattr(torch, name) for name in dir(torch) if name[0] in "abcdeflmnortz" and name not in LEFT_OUT]
    functions = [each for each in functions if callable(each) and not isinstance(each, type)]
    x, asked = torch.ones(2, 2), 0
    for function in functions:
        for args in ((), (x,), (2,), ([2, 2],)):
            for more in ({}, {"pin_memory": True}, *({"device": device} for device in devices)):
                asked += 1
                try: function(*args, **more)
                except Exception: pass
    return asked

LEFT_OUT = {"compile", "from_file", "load", "fork"}
"""
    )
    record = torch_stage.run("fuzz:answer", on=machine, path=[tmp_path], args=[["cuda", "xpu", 0]])
    assert record.result is not None and record.result > 3000, (record.verdict, record.output[-2000:])
