"""Values of a machine in torch's own form: its units, its words, and tables that belong to the caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from masquerade.machines import load_file, resolve
from masquerade.stage import Stage

Ask = Callable[..., Any]

#: The text after the uuid and the driver version in torch 2.13 and 2.14. Source: the output of collect_env on
#: release/2.13 and release/2.14 in intel/torch-xpu-ops issues 3888 and 4453.
MAX_1100 = (
    "total_memory=49136MB, local_mem_size=128KB, last_level_cache_size=196608KB, max_compute_units=448, "
    "memory_clock_rate=3200MHz, memory_bus_width=64-bit, gpu_eu_count=448, gpu_subslice_count=56, "
    "max_work_group_size=1024, max_num_sub_groups=64, sub_group_sizes=[16 32], has_fp16=1, has_fp64=1, has_atomic64=1, "
    "is_integrated_gpu=0)"
)


def test_an_xpu_counts_its_memory_clock_in_megahertz(ask: Ask) -> None:
    source = """\
    import torch
    def answer():
        properties = torch.xpu.get_device_properties(0)
        return [properties.memory_clock_rate, torch.xpu.get_device_capability(0)["memory_clock_rate"]]
    """
    assert ask(source, "max1100") == [3200, 3200]


def test_an_nvidia_card_counts_its_memory_clock_in_kilohertz(ask: Ask) -> None:
    source = "import torch\ndef answer(): return torch.cuda.get_device_properties(0).memory_clock_rate"
    assert ask(source, "h200") == 3_201_000


@pytest.mark.parametrize(
    "on, end", [("max1100", MAX_1100), ("b580", "memory_clock_rate=unknown, memory_bus_width=unknown")]
)
def test_the_text_of_an_xpus_properties(ask: Ask, on: str, end: str) -> None:
    text = ask("import torch\ndef answer(): return str(torch.xpu.get_device_properties(0))", on)
    assert end in text


def test_an_xpu_tells_whether_it_is_integrated(ask: Ask) -> None:
    assert (
        ask("import torch\ndef answer(): return torch.xpu.get_device_properties(0).is_integrated_gpu", "b580") is False
    )


def test_the_table_of_a_processors_capabilities_is_the_callers_own(ask: Ask) -> None:
    source = """\
    import torch
    def answer():
        table = torch._C._cpu._get_cpu_capability()
        before = table["architecture"]
        table["architecture"] = "changed"
        return [before, torch.cpu.get_capabilities()["architecture"]]
    """
    assert ask(source, "graviton4") == ["arm64", "arm64"]


def test_without_kfd_the_management_library_counts_a_card_that_hip_does_not(ask: Ask) -> None:
    # torch.cuda.device_count() asks amdsmi, which reads /sys and not /dev/kfd; is_available() asks HIP.
    source = """\
    import torch
    def answer(): return [torch.cuda.device_count(), torch._C._cuda_getDeviceCount(), torch.cuda.is_available()]
    """
    assert ask(source, "rocm-kfd-missing") == [1, 0, False]


@pytest.mark.parametrize(
    "line, told", [("torch.cudnn = 91002", [True, 91002]), ('none = ["torch.cudnn"]', [False, None])]
)
def test_cudnn_is_the_machines(ask: Ask, tmp_path: Path, line: str, told: list[Any]) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(f'extends = "h200"\n[[facts]]\nsource = "read on our host"\n{line}\n', encoding="utf-8")
    source = "import torch\ndef answer(): return [torch.backends.cudnn.is_available(), torch.backends.cudnn.version()]"
    assert ask(source, on=load_file(file)) == told


@pytest.mark.parametrize("on, level", [("h200", "device-init"), ("mi300x", "fork-poison"), ("b580", "clean")])
def test_asking_for_cudnns_version_asks_the_devices_too(
    torch_stage: Stage, tmp_path: Path, on: str, level: str
) -> None:
    (tmp_path / "subject.py").write_text("import torch\nVERSION = torch.backends.cudnn.version()\n", encoding="utf-8")
    record = torch_stage.run("subject", on=on, path=[tmp_path])
    assert record.touch == level
    assert [str(finding.blame) for finding in record.findings] == (["subject.py:2"] if level != "clean" else [])


def test_hip_gives_the_unique_id_as_sixteen_letters(ask: Ask) -> None:
    # ROCm/legacy-rocm-build issue 4203 prints 66333330-6463-3464-3030-646565323262: the bytes are f330dc4d00dee22b.
    source = """\
    import torch
    def answer():
        properties = torch.cuda.get_device_properties(0)
        uuid = properties.uuid
        return [str(uuid), "".join(map(chr, uuid.bytes)), f"uuid={uuid}," in str(properties), type(uuid.bytes).__name__]
    """
    text, letters, told, kind = ask(source, "mi300x")
    assert letters == resolve("mi300x").devices[0]["uuid"].removeprefix("GPU-")
    assert (text.replace("-", ""), len(text), told, kind) == (letters.encode().hex(), 36, True, "list")


@pytest.mark.parametrize("on, there", [("h200", True), ("mi300x", False)])
def test_the_larger_shared_memory_is_nvidias_alone(ask: Ask, on: str, there: bool) -> None:
    # pytorch/pytorch pull request 170572: a HIP build has no such property.
    source = """\
    import torch
    def answer(): return hasattr(torch.cuda.get_device_properties(0), "shared_memory_per_block_optin")
    """
    assert ask(source, on) is there
