"""What CUDA's runtime does below Python, as it was recorded on an H200 and on a host without a driver."""

from __future__ import annotations

import pytest

IN_CHILD = """\
import os, torch

def answer(before):
    eval(before)
    read, write = os.pipe()
    if os.fork() == 0:
        try: said = str(torch.cuda.init())
        except BaseException as error: said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe: said = pipe.read()
    os.wait()
    return [torch.cuda.is_initialized(), said]
"""

#: C++ starts the driver in these, and torch takes no note of it.
UNNOTED = [
    "torch.cuda.Stream()",
    "torch.cuda.Stream.priority_range()",
    "torch.cuda.CUDAGraph()",
    "torch.cuda.is_current_stream_capturing()",
    "torch.zeros(2).pin_memory()",
    "torch.Generator('cuda')",
    "torch.backends.cuda.cufft_plan_cache[0].max_size",
    "torch.cuda.cudart and torch._C._cudart.cudaGetErrorString(2)",
]


@pytest.mark.parametrize("expression", UNNOTED)
def test_a_driver_that_cpp_started_fails_in_a_fork(torch_stage, ask, tmp_path, expression: str) -> None:
    initialized, said = ask(IN_CHILD, args=[expression])
    assert not initialized
    assert said.startswith(
        "AcceleratorError: CUDA error: initialization error\nSearch for `cudaErrorInitializationError'"
    )
    (tmp_path / "road.py").write_text(f"import torch\n{expression}\n")
    record = torch_stage.run("road", on="h200", path=[tmp_path])
    assert record.touch in ("fork-poison", "device-init"), "masquerade did not see it"


@pytest.mark.parametrize("expression", ["torch.cuda.Stream()", "torch.zeros(2).pin_memory()"])
def test_a_driver_without_a_device_harms_no_fork(ask, expression: str) -> None:
    tried = "try: eval(before)\n    except RuntimeError: pass"
    source = IN_CHILD.replace("eval(before)", tried, 1)
    assert ask(source, args=[expression], env={"CUDA_VISIBLE_DEVICES": ""}) == [
        False, "RuntimeError: No CUDA GPUs are available",
    ]  # fmt: skip


NOTED = ["torch.cuda.is_available()", "torch._C._cuda_getDeviceCount()", "torch._C._cuda_getArchFlags()"]


@pytest.mark.parametrize("expression", NOTED)
def test_a_driver_that_python_started_is_known_to_torch(ask, expression: str) -> None:
    assert ask(IN_CHILD, args=[expression])[1].startswith("RuntimeError: Cannot re-initialize CUDA in forked")


def test_without_a_driver_cpp_raises_the_runtimes_error(ask) -> None:
    source = """\
    import torch
    def answer(expressions):
        out = []
        for text in expressions:
            try: out.append(repr(eval(text)))
            except Exception as error: out.append(f"{type(error).__name__}: {error}".partition("\\n")[0])
        return out
    """
    expressions = ["torch.cuda.Stream()", "torch.Generator('cuda')", "torch.zeros(2).pin_memory()"]
    insufficient = "AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"
    told = ask(source, on="cuda-driver-missing", args=[expressions])
    assert told[:2] == [insufficient] * 2
    assert told[2].startswith("RuntimeError: Found no NVIDIA driver on your system.")
    none = ask(source, args=[expressions], env={"CUDA_VISIBLE_DEVICES": ""})
    assert none[:2] == ["AcceleratorError: CUDA error: no CUDA-capable device is detected"] * 2
    assert none[2] == "RuntimeError: No CUDA GPUs are available"


def test_a_negative_device_is_exchanged_for_itself_and_opens_nothing(ask) -> None:
    source = """\
    import torch
    def answer():
        try: torch._C._cuda_exchangeDevice(None)
        except RuntimeError as error: said = str(error)
        core = torch._C
        return [core._cuda_maybeExchangeDevice(-1), core._cuda_exchangeDevice(-1), said, torch.cuda.is_initialized()]
    """
    assert ask(source) == [-1, -1, "invalid argument to exchangeDevice", False]


def test_a_device_that_is_named_twice_is_an_invalid_ordinal(ask) -> None:
    source = """\
    import torch, warnings
    def answer():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            counts = [torch._C._cuda_getDeviceCount(), torch._C._cuda_getDeviceCount()]
        return [counts, [str(warning.message)[-33:] for warning in caught]]
    """
    counted = [[0, 0], ["Error 101: invalid device ordinal"]]
    assert ask(source, env={"CUDA_VISIBLE_DEVICES": "0,0"}) == counted
    assert ask(source, env={"CUDA_VISIBLE_DEVICES": "0,1"}) == [[1, 1], []]
    # Without a driver nobody reads the variable.
    assert ask(source, on="cuda-driver-missing", env={"CUDA_VISIBLE_DEVICES": "0,0"}) == [[0, 0], []]


def test_the_state_of_a_generator_is_a_seed_and_an_offset(ask) -> None:
    source = """\
    import torch
    def answer():
        generator = torch.Generator("cuda").manual_seed(7)
        draw = lambda: torch.rand(3, device="cuda", generator=generator)
        fresh, first, kept, drawn = generator.get_state(), draw(), generator.get_state(), draw()
        generator.manual_seed(8).set_state(kept)
        again = [draw().equal(drawn), generator.initial_seed()]
        generator.set_state(fresh)
        again.append(draw().equal(first))
        try: generator.set_state(torch.zeros(5, dtype=torch.uint8))
        except RuntimeError as error: again.append(str(error))
        return [fresh.tolist(), len(kept), kept.equal(fresh), *again, len(torch.cuda.get_rng_state())]
    """
    assert ask(source) == [[7] + [0] * 15, 16, False, True, 7, True, "RNG state is wrong size", 16]


def test_operands_of_two_devices_are_refused(ask) -> None:
    source = """\
    import torch
    def answer(expressions):
        there, here = torch.ones(2, device="cuda"), torch.ones(2)
        out = []
        for text in expressions:
            try: out.append(str(eval(text).device))
            except Exception as error: out.append(f"{type(error).__name__}: {error}")
        return out
    """
    said = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
    want = {
        "there + here": said.format("cuda:0", "cpu"),
        "here * there": said.format("cpu", "cuda:0"),
        "there.add_(here)": said.format("cuda:0", "cpu"),
        "there + torch.tensor(2.0)": "cuda:0",
        "there * 3": "cuda:0",
        "there.copy_(here)": "cuda:0",
        "there[torch.tensor([0])]": "cuda:0",
        "here.copy_(there)": "cpu",
    }
    assert dict(zip(want, ask(source, args=[list(want)]), strict=True)) == want


def test_products_of_8_bit_floats_are_refused(ask) -> None:
    source = """\
    import torch
    def answer():
        a = torch.zeros(16, 16, device="cuda").to(torch.float8_e4m3fn)
        try: a @ a
        except NotImplementedError as error: return str(error)
    """
    assert ask(source) == "\"addmm_cuda\" not implemented for 'Float8_e4m3fn'"


def test_an_accelerators_stream_is_a_plain_one(ask) -> None:
    source = """\
    import torch
    def answer():
        stream = torch.accelerator.current_stream()
        torch.accelerator.set_stream(stream)
        return [repr(stream), type(stream).__name__, stream.query(), isinstance(stream, torch.cuda.Stream)]
    """
    plain = "torch.Stream device_type=cuda, device_index=0, stream_id=0"
    assert ask(source) == [plain, "Stream", True, False]


def test_events_are_checked_before_their_time_is_asked_for(ask) -> None:
    source = """\
    import torch
    def answer():
        said = []
        for timed in (False, True):
            event = torch.cuda.Event(enable_timing=timed)
            try: event.elapsed_time(event)
            except ValueError as error: said.append(str(error))
        return said
    """
    created, recorded = "created with argument 'enable_timing=True'.", "recorded before calculating elapsed time."
    assert ask(source) == [f"Both events must be {created}", f"Both events must be {recorded}"]


@pytest.mark.parametrize(
    ("value", "backend"),
    [("backend:cudaMallocAsync", "cudaMallocAsync"), ("max_split_size_mb:64,backend:native", "native"), ("", "native")],
)
def test_the_environment_names_the_allocator(ask, value: str, backend: str) -> None:
    source = "import torch\ndef answer(): return torch.cuda.get_allocator_backend()\n"
    assert ask(source, env={"PYTORCH_CUDA_ALLOC_CONF": value}) == backend


def test_the_number_of_cudnn_is_that_of_the_release(ask) -> None:
    source = """\
    import torch
    def answer():
        return [torch.__version__.split("+")[0], torch.backends.cudnn.version()]
    """
    version, number = ask(source)
    known = {"2.11": 91900, "2.14": 92400}
    assert number == known.get(".".join(version.split(".")[:2]), 92400)


def test_the_cache_of_cufft_plans_can_be_sized(ask) -> None:
    source = """\
    import torch
    def answer():
        cache = torch.backends.cuda.cufft_plan_cache
        before = [cache.size, cache.max_size, cache[0].max_size]
        cache.max_size = 10
        cache.clear()
        return [before, cache.max_size]
    """
    assert ask(source) == [[0, 4096, 4096], 10]
