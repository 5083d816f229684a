"""Each platform's answer when the management library works, fails, lists nothing, or is absent."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
import torch

from blockscale.platforms import cpu, cuda, current, current_platform, libraries, rocm, visible, xpu
from blockscale.platforms.interface import Inventory


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"code {value}")
        self.value = value


class AmdSmiException(Exception):
    def __init__(self, err_code):
        super().__init__(f"code\n{err_code}")
        self.err_code = err_code


def raises(error):
    def function(*_):
        raise error

    return function


@pytest.fixture
def nvml(monkeypatch):
    """A stand-in pynvml that lists the given capabilities."""

    def install(*capabilities, error=None):
        module = types.ModuleType("pynvml")
        module.NVMLError = NVMLError
        module.nvmlInit = raises(error) if error else lambda: None
        module.nvmlShutdown = lambda: None
        module.nvmlDeviceGetCount = lambda: len(capabilities)
        module.nvmlDeviceGetHandleByIndex = lambda index: index
        module.nvmlDeviceGetCudaComputeCapability = lambda index: list(capabilities[index])
        module.nvmlDeviceGetUUID = lambda index: f"GPU-{index}abc"
        monkeypatch.setitem(sys.modules, "pynvml", module)

    return install


@pytest.fixture
def amdsmi(monkeypatch):
    """A stand-in amdsmi that lists the given arch names; init_error fails its init."""

    def install(*names, init_error=None):
        module = types.ModuleType("amdsmi")
        module.AmdSmiException = AmdSmiException
        module.amdsmi_init = raises(init_error) if init_error else lambda: None
        module.amdsmi_shut_down = lambda: None
        module.amdsmi_get_processor_handles = lambda: list(range(len(names)))
        module.amdsmi_get_gpu_asic_info = lambda index: {"target_graphics_version": names[index]}
        monkeypatch.setitem(sys.modules, "amdsmi", module)

    return install


@pytest.fixture
def on(monkeypatch):
    """Make torch say that it was built for a platform, and forget what was resolved."""

    def build(platform):
        for attribute in ("cuda", "hip", "xpu"):
            monkeypatch.setattr(torch.version, attribute, None, raising=False)
        if platform != "cpu":
            monkeypatch.setattr(torch.version, {"rocm": "hip"}.get(platform, platform), "1.0", raising=False)
        current.resolve.cache_clear()

    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(visible.shutil, "which", lambda name: None)
    yield build
    current.resolve.cache_clear()


def names(platform):
    return [arch.name for arch in platform.inventory.archs]


def test_cuda(on, nvml):
    on("cuda")
    nvml((9, 0), (9, 0))
    assert current_platform.is_cuda() and not current_platform.is_rocm()
    assert current_platform.arch.name == "sm_90" and current_platform.why_no_arch == ""
    assert current_platform.device_type == "cuda"


@pytest.mark.parametrize("code", [9, 12])
def test_a_cuda_build_without_a_driver_is_a_cpu(on, nvml, code, monkeypatch):
    on("cuda")
    monkeypatch.setattr(cuda, "_SIGNS_OF_A_DRIVER", ())
    nvml(error=NVMLError(code))
    assert current_platform.is_cpu()
    assert f"torch is built for cuda, but NVML finds no usable card (code {code})" in current_platform.why_no_arch


def test_a_cuda_build_with_no_card_is_a_cpu(on, nvml):
    on("cuda")
    nvml()
    assert current_platform.is_cpu()


def test_failing_nvml_leaves_the_build_to_decide(on, nvml):
    on("cuda")
    nvml(error=NVMLError(999))
    assert current_platform.is_cuda() and current_platform.arch is None
    assert current_platform.why_no_arch == "NVML fails (code 999); nvidia-smi does not say"


def test_a_container_without_nvml_may_still_have_cards(on, nvml, monkeypatch, tmp_path):
    on("cuda")
    nvml(error=NVMLError(12))
    monkeypatch.setattr(cuda, "_SIGNS_OF_A_DRIVER", (str(tmp_path),))
    assert current_platform.is_cuda() and current_platform.arch is None


def test_the_device_itself_can_be_asked(on, nvml, monkeypatch):
    on("cuda")
    nvml(error=NVMLError(999))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert current_platform.arch is None
    assert current_platform.ask_device(torch.device("cuda", 0)).name == "sm_90"
    assert current_platform.arch.name == "sm_90" and current_platform.inventory.source == "the device itself"


def test_nvidia_smi_answers_without_pynvml(on, monkeypatch):
    on("cuda")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(cuda, "output_of", lambda *_: "12.0, GPU-aa\n12.0, GPU-bb\n")
    assert current_platform.arch.name == "sm_120" and current_platform.inventory.source == "nvidia-smi"


@pytest.mark.parametrize(
    ("order", "listed", "want"),
    [
        ("PCI_BUS_ID", "1", ["sm_120"]),
        ("PCI_BUS_ID", "1,0", ["sm_120", "sm_90"]),
        ("", "1", ["sm_90", "sm_120"]),  # fastest first: the index means nothing here
        ("", "GPU-1", ["sm_120"]),
        ("PCI_BUS_ID", "0,7,1", ["sm_90"]),  # the list ends at its first bad entry
        ("PCI_BUS_ID", "", ["sm_90", "sm_120"]),
        ("PCI_BUS_ID", "-1", ["sm_90", "sm_120"]),
    ],
)
def test_visible_devices(on, nvml, monkeypatch, order, listed, want):
    on("cuda")
    nvml((9, 0), (12, 0))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert names(current_platform) == want
    assert (current_platform.arch is None) == (len(want) > 1)
    if len(want) > 1:
        assert "the cards of this host differ (sm_120, sm_90)" in current_platform.why_no_arch


@pytest.mark.parametrize("name", ["gfx942", "gfx950", "gfx1250"])
def test_rocm(on, amdsmi, name):
    on("rocm")
    amdsmi(name, name)
    assert current_platform.is_rocm() and current_platform.device_type == "cuda"
    answers = {"gfx942": rocm.on_gfx942(), "gfx950": rocm.on_gfx950(), "gfx1250": rocm.on_gfx1250()}
    assert answers == {other: other == name for other in answers}
    assert current_platform.fp8_dtype() == (torch.float8_e4m3fnuz if name == "gfx942" else torch.float8_e4m3fn)


def test_rdna4_is_not_gfx1250(on, amdsmi):
    on("rocm")
    amdsmi("gfx1201")
    assert not rocm.on_gfx1250()


def test_amdsmi_without_a_driver_is_a_cpu(on, amdsmi, monkeypatch):
    on("rocm")
    monkeypatch.setattr(rocm, "_WAYS_TO_A_CARD", ())
    amdsmi(init_error=AmdSmiException(34))
    assert current_platform.is_cpu()


def test_amdsmi_without_a_driver_says_nothing_where_hip_has_another_way(on, amdsmi, monkeypatch, tmp_path):
    """Under WSL: no amdgpu module, and HIP works through the host's driver."""
    on("rocm")
    monkeypatch.setattr(rocm, "_WAYS_TO_A_CARD", (str(tmp_path),))
    monkeypatch.setattr(rocm, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(rocm, "output_of", lambda *_: "gfx000\ngfx1100\n")
    amdsmi(init_error=AmdSmiException(34))
    assert current_platform.is_rocm() and current_platform.arch.name == "gfx1100"


def test_the_kernel_drivers_topology_answers_without_amdsmi(on, monkeypatch, tmp_path):
    on("rocm")
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    for node, version in {"0": 0, "1": 90402, "10": 90402, "2": 90010}.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "properties").write_text(f"cpu_cores_count 96\ngfx_target_version {version}\nname\n")
    monkeypatch.setattr(rocm, "_TOPOLOGY", tmp_path)
    assert names(current_platform) == ["gfx942", "gfx90a", "gfx942"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    current.resolve.cache_clear()
    assert current_platform.arch.name == "gfx90a"


def test_agent_enumerator_is_the_last_to_ask(on, monkeypatch, tmp_path, amdsmi):
    on("rocm")
    amdsmi(init_error=AmdSmiException(1))
    monkeypatch.setattr(rocm, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(rocm, "output_of", lambda *_: "gfx000\ngfx950\n")
    assert current_platform.arch.name == "gfx950"
    monkeypatch.setattr(rocm, "output_of", lambda *_: None)
    current.resolve.cache_clear()
    assert current_platform.is_rocm() and current_platform.arch is None
    assert current_platform.why_no_arch.startswith("amdsmi fails (code 1); ")


def test_unparsable_name_stays_unknown(on, amdsmi):
    on("rocm")
    amdsmi("N/A")
    assert current_platform.is_rocm() and current_platform.arch is None
    assert "amdsmi: arch: got 'N/A'" in current_platform.why_no_arch


def test_xpu_opens_no_card_to_say_its_arch(on):
    on("xpu")
    assert current_platform.is_xpu() and current_platform.arch is None
    assert current_platform.why_no_arch == "the arch of an XPU is only known once it is open"


def test_xpu_arch_of_a_device(monkeypatch):
    properties = types.SimpleNamespace(name="B580", device_id=0xE20B)
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device: properties)
    assert xpu.XpuPlatform().device_arch(torch.device("xpu", 0)).name == "bmg"
    properties.device_id = 0x1234
    with pytest.raises(ValueError, match="B580 has PCI id 0x1234, which names no known arch"):
        xpu.XpuPlatform().device_arch(torch.device("xpu", 0))


def test_cpu(on):
    on("cpu")
    assert current_platform.is_cpu() and current_platform.fp8_dtype() == torch.float8_e4m3fn
    with pytest.raises(ValueError, match="expected a GPU, but torch is built for no accelerator"):
        cpu.CpuPlatform("torch is built for no accelerator").device_arch(torch.device("cpu"))


@pytest.mark.parametrize(
    ("platform", "arch", "installed", "why"),
    [
        ("cuda", "sm_90", True, "aiter is a library for rocm, and this is cuda."),
        ("rocm", "gfx950", False, "aiter is not installed."),
        ("rocm", "gfx90a", True, "aiter serves gfx1250, gfx942, gfx950, and this is gfx90a."),
        ("rocm", "gfx1250", True, ""),
        ("rocm", "gfx942", True, ""),
        ("rocm", None, True, "aiter needs to know the arch: amdsmi: arch: got 'N/A'"),
    ],
)
def test_aiter(on, nvml, amdsmi, monkeypatch, platform, arch, installed, why):
    on(platform)
    nvml((9, 0))
    amdsmi(arch or "N/A")
    monkeypatch.setattr(libraries, "_installed", lambda module: installed)
    assert libraries.AITER.why_not().startswith(why) and bool(libraries.AITER.why_not()) == bool(why)
    assert libraries.is_aiter_found_and_supported() == (why == "")


def test_a_library_by_family(on, nvml, monkeypatch):
    on("cuda")
    nvml((10, 3))
    monkeypatch.setattr(libraries, "_installed", lambda module: True)
    assert libraries.is_deep_gemm_found_and_supported() and libraries.is_humming_found_and_supported()


def test_finding_a_library_does_not_import_it(on, amdsmi, monkeypatch, tmp_path):
    on("rocm")
    amdsmi("gfx950")
    (tmp_path / "aiter.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert libraries.is_aiter_found_and_supported() and "aiter" not in sys.modules


def test_an_unknown_inventory_keeps_every_reason():
    from blockscale.platforms.interface import first_answer

    assert first_answer(lambda: Inventory(None, "a"), lambda: Inventory(None, "b")).source == "a; b"


IMPORT_ALL = """
import importlib, pkgutil, sys, torch
before = set(sys.modules)
def refuse(*a, **k): raise SystemExit("device touched")
torch.cuda._lazy_init = torch.xpu._lazy_init = torch._C._cuda_getDeviceCount = refuse
torch.cuda.is_available = torch.cuda.device_count = torch.xpu.is_available = refuse
import blockscale
found = [m.name for m in pkgutil.walk_packages(blockscale.__path__, "blockscale.")]
for name in found: importlib.import_module(name)
from blockscale.platforms.current import resolve
assert len(found) > 10, found
assert not resolve.cache_info().currsize, "a module asked for the platform while it was imported"
vendors = {"aiter", "amdsmi", "pynvml", "deep_gemm", "humming", "triton_kernels", "flashinfer"}
foreign = vendors & (set(sys.modules) - before)
assert not foreign, foreign
"""


def test_importing_every_module_asks_nothing():
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_importing_blockscale_imports_no_torch():
    probe = "import sys, blockscale, blockscale.platforms; raise SystemExit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0


def test_introspection_resolves_nothing(on):
    """doctest, inspect and pytest ask every name of a module for dunder attributes."""
    on("cpu")
    assert not hasattr(current_platform, "__wrapped__") and not hasattr(current_platform, "__bases__")
    assert "not asked yet" in repr(current_platform) and not current.resolve.cache_info().currsize
