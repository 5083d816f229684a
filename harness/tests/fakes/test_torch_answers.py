"""What torch answers on a machine: the same from every build of torch, and what the machine's file says."""

from __future__ import annotations

import pytest

from masquerade import machines

MACHINES = ("h200", "mi355x", "b580", "spr")

SURVEY = """\
import torch

def tried(call):
    try:
        value = call()
        return value if isinstance(value, (bool, int, str, list, tuple, type(None))) else str(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def answer():
    cuda, xpu, accelerator, version = torch.cuda, torch.xpu, torch.accelerator, torch.version
    calls = {
        "version": lambda: [version.cuda, version.hip, version.xpu],
        "local version": lambda: torch.__version__.partition("+")[2],
        "cuda available": cuda.is_available,
        "cuda count": cuda.device_count,
        "cuda initialized": cuda.is_initialized,
        "cuda compiled": lambda: [torch.cuda._is_compiled(), torch.backends.cuda.is_built(), torch._C._has_cuda],
        "cuda bf16": cuda.is_bf16_supported,
        "cuda capability": cuda.get_device_capability,
        "cuda name": cuda.get_device_name,
        "cuda properties": lambda: cuda.get_device_properties(0),
        "cuda current": cuda.current_device,
        "cuda memory": lambda: cuda.mem_get_info()[1],
        "cuda allocated": cuda.memory_allocated,
        "cuda stats": lambda: cuda.memory_stats().get("num_ooms"),
        "cuda arch list": cuda.get_arch_list,
        "cuda gencode": cuda.get_gencode_flags,
        "cuda bad fork": cuda._is_in_bad_fork,
        "cuda stream": lambda: [cuda.current_stream().device.index, cuda.Stream().device.type],
        "cuda synchronize": cuda.synchronize,
        "xpu available": xpu.is_available,
        "xpu count": xpu.device_count,
        "xpu capability": lambda: sorted(xpu.get_device_capability().items()),
        "xpu name": xpu.get_device_name,
        "xpu properties": lambda: xpu.get_device_properties(0),
        "xpu memory": lambda: xpu.mem_get_info()[1],
        "xpu arch list": xpu.get_arch_list,
        "accelerator": accelerator.current_accelerator,
        "accelerator available": accelerator.is_available,
        "accelerator count": accelerator.device_count,
        "accelerator index": accelerator.current_device_index,
        "accelerator stream": lambda: accelerator.current_stream().device.type,
        "accelerator synchronize": accelerator.synchronize,
        "cudnn": torch.backends.cudnn.is_available,
        "mps": torch.backends.mps.is_available,
        "device of cuda": lambda: torch.empty(1, device="cuda").device,
        "device of xpu": lambda: torch.empty(1, device="xpu").device,
        "default device": lambda: torch.get_default_device(),
    }
    return {name: tried(call) for name, call in calls.items()}
"""


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, object]]:
    """machine -> the answers of the first build, with which the others are compared."""
    return {}


@pytest.mark.parametrize("machine", MACHINES)
def test_answers_are_the_machines_and_alike_from_every_build(ask, seen, machine: str) -> None:
    told = ask(SURVEY, on=machine)
    described = machines.resolve(machine).to_json()
    platform = described["platform"]
    assert told["version"] == [described["torch"][key] for key in ("cuda", "hip", "xpu")]
    cuda_like = platform in ("cuda", "rocm")
    assert told["cuda available"] is cuda_like and told["xpu available"] is (platform == "xpu")
    assert told["cuda compiled"] == [cuda_like] * 3
    if platform == "cpu":
        assert told["accelerator"] is None and told["accelerator available"] is False
        assert told["cuda name"] == told["cuda properties"] == "AssertionError: Torch not compiled with CUDA enabled"
        assert told["xpu name"] == "AssertionError: Torch not compiled with XPU enabled"
    else:
        kind = "cuda" if cuda_like else "xpu"
        (device, *_) = described["devices"]
        assert told[f"{kind} name"] == device["name"]
        assert told[f"{kind} count"] == told["accelerator count"] == len(described["devices"])
        assert told[f"{kind} memory"] == device["total_memory"]
        assert told["accelerator"] == kind and told["accelerator stream"] == kind
        assert told[f"device of {kind}"] == f"{kind}:0"
        assert f"name='{device['name']}'" in told[f"{kind} properties"]
    if cuda_like:
        assert told["cuda capability"] == device["capability"]
    # A build of another torch differs in its own errors' words, nowhere else.
    first = seen.setdefault(machine, told)
    assert {k: v for k, v in told.items() if v != first[k]} == {}


def test_the_properties_text_is_that_of_the_real_class(ask) -> None:
    source = "import torch\ndef answer(): return str(torch.{}.get_device_properties(0))"
    text = ask(source.format("cuda"), on="h200")
    assert text.startswith("_CudaDeviceProperties(name='NVIDIA H200', major=9, minor=0, total_memory=")
    assert "multi_processor_count=132" in text and "gcnArchName" not in text
    text = ask(source.format("cuda"), on="mi355x")
    assert "name='AMD Instinct MI355X', major=9, minor=5, gcnArchName='gfx950:sramecc+:xnack-'" in text
    assert ask(source.format("xpu"), on="b580").startswith("_XpuDeviceProperties(name='Intel(R) Arc(TM) B580 Graphics'")


def test_properties_cannot_be_set_and_have_no_other_names(ask) -> None:
    source = """\
    import torch
    def answer():
        properties = torch.cuda.get_device_properties(0)
        out = [hasattr(properties, "no_such_name"), properties == properties, type(properties).__name__]
        try: properties.name = "other"
        except AttributeError as error: out.append(str(error))
        return out
    """
    said = "property of '_CudaDeviceProperties' object has no setter"
    assert ask(source) == [False, True, "_CudaDeviceProperties", said]


COUNT = """\
import torch
def answer(): return [torch.{0}.device_count(), torch.{0}.is_available(), torch.{0}.is_initialized()]
"""


@pytest.mark.parametrize(
    ("machine", "kind", "env", "count"),
    [
        ("h200x8", "cuda", {}, 8),
        ("h200x8", "cuda", {"CUDA_VISIBLE_DEVICES": "1,3"}, 2),
        ("h200x8", "cuda", {"CUDA_VISIBLE_DEVICES": ""}, 0),
        ("h200x8", "cuda", {"CUDA_VISIBLE_DEVICES": "0,9,1"}, 1),
        ("h200x8", "cuda", {"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        ("h200x8", "cuda", {"HIP_VISIBLE_DEVICES": "0"}, 8),
        ("mi300xx8", "cuda", {"HIP_VISIBLE_DEVICES": "0,1,2"}, 3),
        ("mi300xx8", "cuda", {"CUDA_VISIBLE_DEVICES": "5"}, 1),
        ("mi300xx8", "cuda", {"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "1"}, 1),
        ("b580x4", "xpu", {"ZE_AFFINITY_MASK": "0,2"}, 2),
        ("b580x4", "xpu", {"ONEAPI_DEVICE_SELECTOR": "level_zero:1"}, 1),
        ("b580x4", "xpu", {"CUDA_VISIBLE_DEVICES": "0"}, 4),
    ],
)
@pytest.mark.parametrize("nvml", [None, "1"])
def test_visible_devices(ask, machine: str, kind: str, env: dict[str, str], count: int, nvml: str | None) -> None:
    source = COUNT.format(kind)
    options = {**env, "PYTORCH_NVML_BASED_CUDA_CHECK": nvml}
    assert ask(source, on=machine, env=options) == [count, count > 0, False]


def test_indices_are_mapped_as_the_driver_maps_them(ask) -> None:
    source = """\
    import torch
    def answer():
        shown = [torch.cuda.get_device_properties(index).pci_bus_id for index in range(torch.cuda.device_count())]
        return shown
    """
    every = ask(source, on="h200x8")
    assert len(set(every)) == 8
    assert ask(source, on="h200x8", env={"CUDA_VISIBLE_DEVICES": "5,2"}) == [every[5], every[2]]


def test_a_wrong_index_is_the_real_error(ask) -> None:
    source = """\
    import torch
    def answer(kind):
        device, out = getattr(torch, kind), []
        where = f"{kind}:9"
        for call in (
            lambda: device.get_device_properties(9),
            lambda: device.set_device(9),
            lambda: torch.empty(1, device=where),
            lambda: torch.ones(1).to(where),
        ):
            try: call()
            except Exception as error: out.append(f"{type(error).__name__}: {error}")
            else: out.append("no error")
        return out
    """
    assert ask(source, args=["cuda"])[0] == "AssertionError: Invalid device id"
    assert all("invalid device ordinal" in said for said in ask(source, args=["cuda"])[1:])
    assert all("HIP error: invalid device ordinal" in said for said in ask(source, on="mi355x", args=["cuda"])[1:])
    assert all(said != "no error" for said in ask(source, on="b580", args=["xpu"]))


@pytest.mark.parametrize(
    ("machine", "nvml", "touch"),
    [
        ("h200", None, "fork-poison"),
        ("h200", "1", "queried"),
        ("mi300x", None, "fork-poison"),
        ("mi300x", "1", "queried"),
        ("mi300x-amdsmi", "1", "fork-poison"),  # without amdsmi the count falls back to the driver
        ("spr", "1", "clean"),
    ],
)
def test_the_nvml_switch_changes_how_far_a_question_reaches(torch_stage, tmp_path, machine, nvml, touch) -> None:
    (tmp_path / "level.py").write_text("import torch\ntorch.cuda.is_available()\n")
    env = {"PYTORCH_NVML_BASED_CUDA_CHECK": nvml}
    record = torch_stage.run("level", on=machine, path=[tmp_path], env=env)
    assert record.touch == touch
    assert record.verdict == (touch if touch == "fork-poison" else "ok")
