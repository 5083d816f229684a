"""NVML: the installed binding and the one that stands in for it give the same answers, with NVML's own errors."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

from masquerade.fakes.nvml import ANSWERS
from masquerade.fakes.nvml_constants import CONSTANTS

INSTALL = "from masquerade.fakes import pynvml as fake\nfake.install(world)\n"


@pytest.fixture
def site(tmp_path: Path) -> list[Path]:
    """A folder in which nvidia-ml-py is installed."""
    pynvml = pytest.importorskip("pynvml")
    (tmp_path / "site").mkdir()
    shutil.copy(pynvml.__file__, tmp_path / "site")
    return [tmp_path / "site"]


#: Without the installed binding: what `import pynvml` finds where nvidia-ml-py is not there.
STANDING_IN = (
    "from masquerade.fakes import hooks\n_real = hooks.installed\n"
    "hooks.installed = lambda name: name != 'pynvml' and _real(name)\n"
)
BINDINGS = pytest.mark.parametrize("before", ["", STANDING_IN], ids=["installed", "stand-in"])

QUERY = """
import pynvml
pynvml.nvmlInit()
answer["count"] = pynvml.nvmlDeviceGetCount()
answer["types"] = [type(pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByIndex(0))).__name__,
                   type(pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(0))).__name__]
answer["system"] = [pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlSystemGetCudaDriverVersion(),
                    pynvml.nvmlSystemGetNVMLVersion()]
handle = pynvml.nvmlDeviceGetHandleByIndex(1)
for name in ("Name", "UUID", "Serial", "CudaComputeCapability", "PowerUsage", "EnforcedPowerLimit", "MigMode",
             "Index", "ComputeRunningProcesses", "GraphicsRunningProcesses", "Architecture", "PersistenceMode",
             "PerformanceState"):
    answer[name] = getattr(pynvml, "nvmlDeviceGet" + name)(handle)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
answer["memory"] = [memory.total, memory.free, memory.used]
memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
answer["memory2"] = [memory.total, memory.free, memory.used, memory.reserved]
pci = pynvml.nvmlDeviceGetPciInfo(handle)
answer["pci"] = [pci.busId, pci.busIdLegacy, pci.domain, pci.bus, pci.device, pci.pciDeviceId]
rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
answer["rates"] = [rates.gpu, rates.memory]
answer["temperature"] = pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
answer["clock"] = [pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                   pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)]
answer["by"] = [pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(answer["UUID"])),
                pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(pci.busId)),
                pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy))]
answer["errors"] = [error(pynvml.nvmlDeviceGetHandleByIndex, 9), error(pynvml.nvmlDeviceGetHandleByUUID, "GPU-0"),
                    error(pynvml.nvmlDeviceGetBoardId, handle), error(pynvml.nvmlDeviceGetClockInfo, handle, 2),
                    error(pynvml.nvmlDeviceGetP2PStatus, handle, handle, pynvml.NVML_P2P_CAPS_INDEX_NVLINK),
                    error(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, handle)]
pynvml.nvmlShutdown()
answer["after"] = error(pynvml.nvmlDeviceGetCount)
"""


@BINDINGS
def test_both_bindings_answer_alike(child: Any, site: list[Path], before: str) -> None:
    machine = {"devices.0.memory_clock_rate": "unknown", "devices.1.memory_clock_rate": "unknown"}
    found = child(before + INSTALL + QUERY, "h100x2", machine, env={"CUDA_VISIBLE_DEVICES": "0"}, path=site)
    assert found["count"] == 2
    assert found["system"] == ["580.159.04", 13000, "13.580.159.04"]
    assert found["Name"] == "NVIDIA H100 80GB HBM3"
    assert found["CudaComputeCapability"] == [9, 0]
    assert found["EnforcedPowerLimit"] == 700_000
    assert found["PowerUsage"] == 50_000
    assert found["MigMode"] == [0, 0]
    assert found["types"] == ["list", "tuple"]
    assert found["ComputeRunningProcesses"] == []
    assert found["Architecture"] == CONSTANTS["NVML_DEVICE_ARCH_HOPPER"]
    assert found["memory"] == [85027979264, 85027979264, 0]
    assert found["memory2"] == [85027979264, 85027979264, 0, 0]
    assert found["pci"] == ["00000000:07:00.0", "0000:07:00.0", 0, 7, 0, 0x233010DE]
    assert found["rates"] == [0, 0]
    assert found["clock"] == [1980, 1980]
    assert found["by"] == [1, 1, 1]
    wrong, missing, board, clock, peer, ancestor = found["errors"]
    assert wrong == "NVMLError_InvalidArgument: Invalid Argument"
    assert missing == "NVMLError_NotFound: Not Found"
    assert board.startswith("NoAnswerError: pynvml.nvmlDeviceGetBoardId was called on machine h100x2")
    assert clock.startswith("UnknownValueError: pynvml.nvmlDeviceGetClockInfo asked for devices.1.memory_clock_rate")
    assert peer.startswith("UnknownValueError: pynvml.nvmlDeviceGetP2PStatus asked for interconnect")
    # No key of a machine's file holds it, so none is asked for.
    assert ancestor.startswith("NoAnswerError: pynvml.nvmlDeviceGetTopologyCommonAncestor was called")
    assert found["after"] == "NVMLError_Uninitialized: Uninitialized"


def test_the_answers_of_both_are_the_same(child: Any, site: list[Path]) -> None:
    one, other = (child(before + INSTALL + QUERY, "h100x2", path=site) for before in ("", STANDING_IN))
    assert one == other


def test_constants_are_those_of_the_binding() -> None:
    pynvml = pytest.importorskip("pynvml")
    assert {name: getattr(pynvml, name) for name in CONSTANTS} == CONSTANTS


def test_every_public_function_is_answered_or_says_that_it_is_not(child: Any) -> None:
    pynvml = pytest.importorskip("pynvml")
    public = [name for name, value in vars(pynvml).items() if name.startswith("nvml") and inspect.isfunction(value)]
    found = child(
        f"from masquerade.fakes import nvml\n{STANDING_IN}{INSTALL}public = {public!r}\n"
        """
import pynvml
pynvml.nvmlInit()
skip = set(nvml.ANSWERS) | {"nvmlExceptionClass"}
said = {name: error(getattr(pynvml, name), None) for name in public if name not in skip}
expected = "NoAnswerError: pynvml.{} was called"
answer["silent"] = [name for name, text in said.items() if not text.startswith(expected.format(name))]
answer["errors"] = {name: error(lambda: getattr(pynvml, name)) for name in ("NVML_NO_SUCH", "c_nothing")}
answer["raises"] = {name: getattr(pynvml, name)().value for name in dir(pynvml) if name.startswith("NVMLError_")}
"""
    )
    assert found["silent"] == []
    assert all(text.startswith("AttributeError") for text in found["errors"].values())
    theirs = {name: getattr(pynvml, name)().value for name in dir(pynvml) if name.startswith("NVMLError_")}
    assert found["raises"] == theirs


def test_answers_are_functions_that_nvml_has() -> None:
    """Each name is one that the binding looks up in the library, or a version of it that older ones do."""
    pynvml = pytest.importorskip("pynvml")
    source = inspect.getsource(pynvml)
    stems = {name.removesuffix("_v2").removesuffix("_v3") for name in ANSWERS}
    assert {stem for stem in stems if f"{stem}" not in source} == set()


@BINDINGS
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Driver Not Loaded", "NVMLError_DriverNotLoaded: Driver Not Loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch", "NVMLError_LibRmVersionMismatch"),
        ("NVML Shared Library Not Found", "NVMLError_LibraryNotFound: NVML Shared Library Not Found"),
        ("Unknown Error", "NVMLError_Unknown: Unknown Error"),
        ("what nobody has heard of", "NVMLError_Unknown: Unknown Error"),
    ],
)
def test_a_failing_library_gives_its_own_error(
    child: Any, site: list[Path], before: str, said: str, error: str
) -> None:
    changes = {"management.nvml": "failing", "fault": {"kind": "broken", "management_error": said}}
    found = child(
        before + INSTALL + "import pynvml\nanswer['init'] = error(pynvml.nvmlInit)\n"
        "answer['count'] = error(pynvml.nvmlDeviceGetCount)",
        changes=changes,
        path=site,
    )
    assert found["init"].startswith(error)
    assert found["count"].startswith("NVMLError_Uninitialized")


def test_absent_nvml_is_absent_to_import_and_to_ctypes(child: Any, site: list[Path]) -> None:
    found = child(
        """
seen = []
sys.addaudithook(lambda event, arguments: event == "ctypes.dlopen" and seen.append(arguments[0]))
"""
        + INSTALL
        + """
import ctypes, importlib.util
answer["spec"] = importlib.util.find_spec("pynvml") is None
answer["import"] = error(__import__, "pynvml")
answer["library"] = error(ctypes.CDLL, "libnvidia-ml.so.1")
answer["tried"] = seen
answer["others"] = ctypes.CDLL(None).getpid() == os.getpid()
""",
        "mi355x",
        path=site,
    )
    assert found["spec"] is True
    assert found["import"].startswith("ModuleNotFoundError")
    assert found["library"].startswith("OSError: libnvidia-ml.so.1: cannot open shared object file")
    assert "libnvidia-ml.so.1" not in found["tried"], "a search that finds nothing loads nothing"
    assert found["others"] is True


def test_a_library_that_is_not_found_is_not_found_by_ctypes_either(child: Any) -> None:
    changes = {"management.nvml": "failing", "fault.management_error": "NVML Shared Library Not Found"}
    found = child(
        INSTALL + "import ctypes\nanswer['library'] = error(ctypes.CDLL, 'libnvidia-ml.so.1')",
        "cuda-management-failing",
        changes,
    )
    assert found["library"].startswith("OSError: libnvidia-ml.so.1: cannot open shared object file")


def test_code_that_opens_the_library_itself_is_answered(child: Any) -> None:
    """As torch.cuda._raw_device_uuid_nvml does, with void pointers and a class that it took before the disguise."""
    found = child(
        "from ctypes import CDLL, byref, c_int, c_void_p, create_string_buffer\n"
        + INSTALL
        + """
library = CDLL("libnvidia-ml.so.1")
answer["before"] = library.nvmlDeviceGetCount_v2(byref(c_int()))
answer["init"] = library.nvmlInit()
count, device, text = c_int(-1), c_void_p(), create_string_buffer(96)
library.nvmlDeviceGetCount_v2(byref(count))
library.nvmlDeviceGetHandleByIndex_v2(0, byref(device))
answer["uuid"] = [library.nvmlDeviceGetUUID(device, text, 96), text.raw.decode().strip("\\0")]
answer["small"] = library.nvmlDeviceGetUUID(device, create_string_buffer(8), 8)
answer["count"] = count.value
answer["symbol"] = hasattr(library, "cuInit")
answer["unanswered"] = error(library.nvmlDeviceGetBoardId, device, byref(count))
"""
    )
    assert found["before"] == 1
    assert found["init"] == 0
    assert found["count"] == 1
    assert found["uuid"][0] == 0
    assert found["uuid"][1].startswith("GPU-")
    assert found["small"] == 7
    assert found["symbol"] is False
    assert found["unanswered"].startswith("NoAnswerError: pynvml.nvmlDeviceGetBoardId")


def test_a_binding_that_was_loaded_before_is_given_back(child: Any, site: list[Path]) -> None:
    found = child(
        "import pynvml as before\n" + INSTALL + "import pynvml\npynvml.nvmlInit()\n"
        "answer['same'] = pynvml is before\nanswer['count'] = pynvml.nvmlDeviceGetCount()",
        path=site,
    )
    assert found == {"same": True, "count": 1}


def test_an_nvidia_card_in_another_platforms_machine_is_seen(child: Any) -> None:
    changes = {
        "management.nvml": "ok",
        "other_devices": [{"name": "NVIDIA A10", "pci_vendor_id": "0x10de", "capability": [8, 6]}],
    }
    found = child(
        STANDING_IN + INSTALL + "import pynvml\npynvml.nvmlInit()\n"
        "answer['name'] = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))",
        "mi355x",
        changes,
    )
    assert found == {"name": "NVIDIA A10"}


def test_nvlink_where_the_machine_file_tells(child: Any) -> None:
    found = child(
        STANDING_IN + INSTALL + "import pynvml\npynvml.nvmlInit()\n"
        "one, two = map(pynvml.nvmlDeviceGetHandleByIndex, range(2))\n"
        "answer['peer'] = pynvml.nvmlDeviceGetP2PStatus(one, two, 2)\n"
        "answer['links'] = [pynvml.nvmlDeviceGetNvLinkState(one, link) for link in (0, 17)]\n"
        "answer['over'] = error(pynvml.nvmlDeviceGetNvLinkState, one, 18)\n",
        "h100x2",
        {"interconnect": "NV18"},
    )
    assert found == {"peer": 0, "links": [1, 1], "over": "NVMLError_InvalidArgument: Invalid Argument"}


def test_a_clock_that_is_none_and_the_display_mode_of_a_server_card(child: Any) -> None:
    """As recorded on an H200 (fixtures/recordings)."""
    code = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
answer["clock"] = error(pynvml.nvmlDeviceGetClockInfo, handle, 9)
answer["display"] = [pynvml.nvmlDeviceGetDisplayMode(handle), pynvml.nvmlDeviceGetDisplayActive(handle)]
"""
    told = child(INSTALL + STANDING_IN + code, machine="h200")
    assert told == {"clock": "NVMLError_NotSupported: Not Supported", "display": [1, 0]}
