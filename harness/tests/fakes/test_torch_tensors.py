"""Tensors on a faked device: made, moved and computed with; shape, dtype and device are the real ones'."""

from __future__ import annotations

import pytest

from conftest import write

#: expression -> (device type, shape, dtype). D is the device.
MADE = {
    "torch.empty(3, device=D)": ("D", (3,), "float32"),
    "torch.zeros(3, 2, device=D, dtype=torch.bfloat16)": ("D", (3, 2), "bfloat16"),
    "torch.ones((2, 2), device=torch.device(D, 0))": ("D", (2, 2), "float32"),
    "torch.full((2,), 3, device=D)": ("D", (2,), "int64"),
    "torch.tensor([1., 2.], device=D)": ("D", (2,), "float32"),
    "torch.as_tensor([1, 2], device=D)": ("D", (2,), "int64"),
    "torch.asarray([1, 2], device=D)": ("D", (2,), "int64"),
    "torch.arange(4, device=D)": ("D", (4,), "int64"),
    "torch.linspace(0, 1, 5, device=D)": ("D", (5,), "float32"),
    "torch.eye(3, device=D)": ("D", (3, 3), "float32"),
    "torch.rand(4, 4, device=D)": ("D", (4, 4), "float32"),
    "torch.randn(4, device=D, dtype=torch.float16)": ("D", (4,), "float16"),
    "torch.randint(0, 9, (3,), device=D)": ("D", (3,), "int64"),
    "torch.kaiser_window(5, device=D)": ("D", (5,), "float32"),
    "torch.kaiser_window(5, False, 2.0, device=D)": ("D", (5,), "float32"),
    "torch.randperm(5, device=D)": ("D", (5,), "int64"),
    "torch.empty_like(torch.ones(2), device=D)": ("D", (2,), "float32"),
    "torch.empty_strided((2, 3), (1, 2), device=D)": ("D", (2, 3), "float32"),
    "torch.ones(2).to(D)": ("D", (2,), "float32"),
    "torch.ones(2).to(D, torch.float64)": ("D", (2,), "float64"),
    "torch.ones(2).to(torch.device(D, 0))": ("D", (2,), "float32"),
    "getattr(torch.ones(2), D)()": ("D", (2,), "float32"),
    "torch.ones(2).to(torch.ones(1, device=D))": ("D", (2,), "float32"),
    "torch.ones(2, device=D).cpu()": ("cpu", (2,), "float32"),
    "torch.ones(2, device=D).to('cpu')": ("cpu", (2,), "float32"),
    "torch.ones(2, device=D).new_zeros(5)": ("D", (5,), "float32"),
    "torch.ones(2, device=D).new_tensor([1, 2])": ("D", (2,), "float32"),
    "torch.zeros_like(torch.ones(2, device=D), dtype=torch.int8)": ("D", (2,), "int8"),
    "torch.ones(2, 3, device=D).view(3, 2)[0]": ("D", (2,), "float32"),
    "torch.ones(2, 3, device=D).t().contiguous()": ("D", (3, 2), "float32"),
    "torch.ones(2, 3, device=D).add_(1).mul_(2)": ("D", (2, 3), "float32"),
    "torch.cat([torch.ones(2, device=D)] * 2)": ("D", (4,), "float32"),
    "torch.stack([torch.ones(2, device=D)] * 2)": ("D", (2, 2), "float32"),
    "torch.ones(4, 5, device=D) @ torch.ones(5, 6, device=D)": ("D", (4, 6), "float32"),
    "torch.ones(4, device=D) + 1": ("D", (4,), "float32"),
    "torch.ones(4, device=D).to(torch.float8_e4m3fn)": ("D", (4,), "float8_e4m3fn"),
    "torch.ones(4, device=D) > 0": ("D", (4,), "bool"),
    "torch.ones(4, device=D).sum()": ("D", (), "float32"),
    "torch.ones(4, device=D).clone().detach()": ("D", (4,), "float32"),
    "torch.nn.Linear(4, 3, device=D)(torch.ones(2, 4, device=D))": ("D", (2, 3), "float32"),
    "torch.nn.Linear(4, 3).to(D)(torch.ones(2, 4, device=D))": ("D", (2, 3), "float32"),
    "torch.nn.Linear(4, 3).to(D).weight": ("D", (3, 4), "float32"),
    "torch.nn.LayerNorm(4, device=D)(torch.ones(2, 4, device=D))": ("D", (2, 4), "float32"),
    "torch.nn.functional.softmax(torch.ones(2, 4, device=D), -1)": ("D", (2, 4), "float32"),
    "torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8, device=D)] * 3)": (
        "D",
        (1, 2, 4, 8),
        "float32",
    ),
    "copy.deepcopy(torch.ones(2, device=D))": ("D", (2,), "float32"),
    "copy.deepcopy(torch.nn.Linear(4, 3, device=D)).weight": ("D", (3, 4), "float32"),
    "torch.nn.Parameter(torch.ones(2, device=D)).data": ("D", (2,), "float32"),
    "in_context(lambda: torch.ones(2))": ("D", (2,), "float32"),
    "torch.ones(3).pin_memory()": ("cpu", (3,), "float32"),
    "torch.ones(3, requires_grad=True).to(D)": ("D", (3,), "float32"),
}

SOURCE = """\
import copy, torch

def answer(D, expressions):
    def in_context(call):
        with torch.device(D):
            return call()
    out = {}
    for text in expressions:
        try:
            made = eval(text, {**globals(), **locals()})
            out[text] = [made.device.type, list(made.shape), str(made.dtype).removeprefix("torch."), made.device.index]
        except Exception as error:
            out[text] = f"{type(error).__name__}: {error}"
    return out
"""

KINDS = [("h200", "cuda"), ("mi355x", "cuda"), ("b580", "xpu")]


@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_what_is_made_is_on_the_device(ask, machine: str, kind: str) -> None:
    told = ask(SOURCE, on=machine, args=[kind, list(MADE)])
    want = {
        text: [kind if where == "D" else where, list(shape), dtype, 0 if where == "D" else None]
        for text, (where, shape, dtype) in MADE.items()
    }
    assert {text: (said, want[text]) for text, said in told.items() if said != want[text]} == {}


#: expression -> its value
VALUES = {
    "torch.ones((), device=D).item()": 1.0,
    "torch.arange(3, device=D).tolist()": [0, 1, 2],
    "torch.ones(1, device=D).numpy(force=True).tolist()": [1.0],
    "error(lambda: torch.ones(1, device=D).numpy())": None,
    "torch.ones(1, device=D).is_cuda": None,
    "str(torch.ones(1, device=D).device)": None,
    "torch.ones(2, device=D).is_cpu": False,
    "torch.ones(4, device=D).nbytes": 16,
    "torch.equal(torch.ones(2, device=D), torch.ones(2, device=D))": True,
    "isinstance(torch.ones(2, device=D), torch.Tensor)": True,
    "torch.ones(2, device=D).data_ptr() % 4": 0,
    "torch.ones(2, device=D).storage_offset()": 0,
    "torch.ones(3).pin_memory().is_pinned()": True,
    "torch.ones(3).pin_memory()[1:].is_pinned()": True,
    "torch.ones(3).is_pinned()": False,
    "str(torch.Generator(device=D).device)": None,
    "isinstance(torch.default_generator, torch.Generator)": True,
    "torch.randn(3, device=D, generator=torch.Generator(D).manual_seed(3)).cpu().equal("
    "torch.randn(3, generator=torch.Generator().manual_seed(3)))": True,
    "str(pickle.loads(pickle.dumps(torch.Generator(D))).device)": None,
    "[str(g.device) for g in getattr(torch, D).default_generators]": None,
}


@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_what_is_asked_of_a_tensor(ask, machine: str, kind: str) -> None:
    source = """\
    import pickle, torch
    def answer(D, expressions):
        def error(call):
            try: call()
            except Exception as caught: return f"{type(caught).__name__}: {caught}"
        names = {**globals(), "D": D, "error": error}
        return [eval(text, names) for text in expressions]
    """
    where = f"{kind}:0"
    own = {text: where for text in VALUES if text.startswith("str(")}
    if machine == "h200":  # CUDA's generators have the number that they were given, and none without: so recorded
        own.update({text: kind for text in own if "Generator(" in text})
    own["error(lambda: torch.ones(1, device=D).numpy())"] = (
        f"TypeError: can't convert {where} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first."
    )
    own["torch.ones(1, device=D).is_cuda"] = kind == "cuda"
    own["[str(g.device) for g in getattr(torch, D).default_generators]"] = [where]
    told = dict(zip(VALUES, ask(source, on=machine, args=[kind, list(VALUES)]), strict=True))
    assert told == {**VALUES, **own}


def test_a_backward_through_the_device_says_why_it_cannot_be(ask) -> None:
    source = """\
    import torch
    def answer():
        torch.ones(3, requires_grad=True).sum().backward()  # on the CPU all is as ever
        x = torch.ones(3, device="cuda", requires_grad=True)
        try: x.sum().backward()
        except RuntimeError as error: return [type(error).__name__, str(error)]
    """
    kind, said = ask(source)
    assert kind == "NoAnswerError" and said.startswith("torch.autograd backward was called on machine h200")


def test_no_grad_training_steps_and_state_dicts(ask) -> None:
    source = """\
    import io, torch
    def answer():
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.LayerNorm(4)).to("cuda").eval()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(torch.ones(2, 4, device="cuda"))
        state = {name: [str(value.device), list(value.shape)] for name, value in model.state_dict().items()}
        other = torch.nn.Linear(4, 4, device="cuda")
        other.load_state_dict({"weight": torch.zeros(4, 4), "bias": torch.zeros(4)})
        return [str(out.device), list(out.shape), len(state), {where for where, _ in state.values()} == {"cuda:0"}]
    """
    assert ask(source) == ["cuda:0", [2, 4], 4, True]


def test_threads_make_tensors_too(ask) -> None:
    source = """\
    import threading, torch
    def answer():
        made = []
        thread = threading.Thread(target=lambda: made.append(str(torch.ones(2, device="cuda").device)))
        thread.start(); thread.join()
        return made
    """
    assert ask(source) == ["cuda:0"]


def test_every_device_of_a_host(ask) -> None:
    source = """\
    import torch
    def answer():
        torch.cuda.set_device(3)
        def made(device): return str(torch.ones(1, device=device).device)
        with torch.cuda.device(5): inside = made("cuda")
        return [made("cuda"), inside, made("cuda:7"), torch.cuda.current_device()]
    """
    assert ask(source, on="h200x8") == ["cuda:3", "cuda:5", "cuda:7", 3]


@pytest.mark.parametrize(
    "source",
    [
        "torch.empty(1, device='{0}')",
        "torch.ones(1).to('{0}')",
        "torch.ones(1).{0}()",
        "torch.nn.Linear(1, 1).to('{0}')",
        "torch.Generator(device='{0}')",
        "torch.ones(1).pin_memory()",
        "torch.{0}.Stream()",
        "torch.{0}.current_stream()",
        "torch.{0}.get_device_properties(0)",
        "torch.{0}.synchronize()",
        "torch.{0}.mem_get_info()",
        "torch.{0}.get_rng_state()",
        "torch.accelerator.current_device_index()",
        "torch.accelerator.synchronize()",
    ],
)
@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_each_way_to_open_a_device_is_seen(torch_stage, tmp_path, machine: str, kind: str, source: str) -> None:
    (tmp_path / "opens.py").write_text(f"import torch\n{source.format(kind)}\n")
    record = torch_stage.run("opens", on=machine, path=[tmp_path])
    assert record.verdict == "device-init", [(f.kind, f.what, f.message) for f in record.findings]
    assert str(record.worst.blame) == "opens.py:2"


@pytest.mark.parametrize(
    "source",
    [
        "torch.device('{0}', 0)",
        "torch.zeros(2)",
        "torch.manual_seed(3)",
        "torch.{0}.manual_seed_all(3)",
        "torch.{0}.is_initialized()",
        "torch.accelerator.current_accelerator()",
        "torch.{0}.memory_allocated()",
        "torch.{0}.empty_cache()",
        "torch.{0}._is_compiled()",
        "torch.get_default_device()",
        "torch.nn.Linear(4, 4)",
        "torch.Generator()",
        "torch.empty(2, device='meta')",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.{0}.Stream",
    ],
)
@pytest.mark.parametrize(("machine", "kind"), KINDS)
def test_what_opens_no_device_is_clean(torch_stage, tmp_path, machine: str, kind: str, source: str) -> None:
    (tmp_path / "clean.py").write_text(f"import torch\n{source.format(kind)}\n")
    record = torch_stage.run("clean", on=machine, path=[tmp_path])
    assert (record.verdict, record.touch) == ("ok", "clean"), [(f.kind, f.what, f.message) for f in record.findings]


def test_a_tensor_of_a_bare_device_is_one_touch(torch_stage, tmp_path) -> None:
    """What the fake asks itself is not the subject's doing: one line, one finding."""
    write(tmp_path, {"bare.py": "import torch\nA = torch.tensor([1.0], device='xpu')\nB = torch.ones(2).to('xpu')\n"})
    record = torch_stage.run("bare", on="b580", path=[tmp_path])
    assert [(f.kind, f.what, str(f.blame)) for f in record.findings] == [
        ("device-init", "torch.xpu._lazy_init", "bare.py:2"),
        ("device-init", "torch.xpu._lazy_init", "bare.py:3"),
    ]
