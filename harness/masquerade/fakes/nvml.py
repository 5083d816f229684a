"""What libnvidia-ml answers on a machine: the functions of NVML, by their C names, over Python values.

Source of names, codes and formats: the NVML API Reference and nvidia-ml-py. A management library sees all cards,
whatever CUDA_VISIBLE_DEVICES says. A function that is not here raises NoAnswerError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import steady
from .world import Device, NoAnswerError, World

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 1, 2, 3, 6
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, UNKNOWN_ERROR = 9, 12, 999

#: What nvmlErrorString says. Source: nvidia-ml-py, NVMLError._errcode_to_string; code 18 as nvidia-smi words it.
ERRORS = {
    0: "Success",
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    5: "Already Initialized",
    6: "Not Found",
    7: "Insufficient Size",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires restart",
    17: "The operating system has blocked the request.",
    18: "Driver/library version mismatch",
    20: "Insufficient Memory",
    999: "Unknown Error",
}

#: First address of a device handle. Nobody reads what is there: a handle is only ever given back.
_HANDLES = 0x4E56_0000

#: NVML_DEVICE_ARCH_* by compute capability, newest first.
_ARCHITECTURES = (((10, 0), 10), ((9, 0), 9), ((8, 9), 8), ((8, 0), 7), ((7, 5), 6), ((7, 0), 5), ((6, 0), 4))

_CLOCKS = {0: "clock_rate", 1: "clock_rate", 2: "memory_clock_rate"}


class Refused(Exception):
    """NVML returned a code other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


Answer = Callable[..., Any]
ANSWERS: dict[str, Answer] = {}


def _answers(*names: str) -> Callable[[Answer], Answer]:
    def register(function: Answer) -> Answer:
        ANSWERS.update(dict.fromkeys(names, function))
        return function

    return register


class Nvml:
    """The library in one process. `call(name, *inputs)` gives None, one value, or a tuple of outputs in C order.

    Handles are whole numbers, texts are str, a struct is a dict of its fields. Raises Refused with NVML's code,
    UnknownValueError for a value that the machine's file lacks, and NoAnswerError.
    """

    def __init__(self, world: World) -> None:
        self.world, self.started, self.probe = world, 0, ""

    def call(self, name: str, *inputs: Any) -> Any:
        answer = ANSWERS.get(name)
        if answer is None:
            raise NoAnswerError(self.world.id, f"pynvml.{name}")
        if not self.started and not name.startswith(("nvmlInit", "nvmlErrorString")):
            raise Refused(UNINITIALIZED)
        self.probe = f"pynvml.{name}"
        return answer(self, *inputs)

    @property
    def cards(self) -> list[Device]:
        return self.world.cards("cuda")

    def card(self, handle: int) -> Device:
        place, rest = divmod(handle - _HANDLES, 16)
        if rest or not 0 <= place < len(self.cards):
            raise Refused(INVALID_ARGUMENT)
        return self.cards[place]

    def value(self, handle: int, key: str) -> Any:
        return self.card(handle).get(key, self.probe)

    def find(self, key: str, wanted: str) -> int:
        """The handle of the card whose `key` is `wanted`."""
        for place, card in enumerate(self.cards):
            if _comparable(str(card.known(key, ""))) == _comparable(wanted):
                return _HANDLES + place * 16
        raise Refused(NOT_FOUND)


def _comparable(text: str) -> str:
    """PCI bus ids come with four and with eight digits of domain."""
    parts = text.lower().split(":")
    return ":".join([parts[0].lstrip("0"), *parts[1:]]) if len(parts) == 3 else text


@_answers("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags")
def _init(nvml: Nvml, flags: int = 0) -> None:
    code = start_code(nvml.world)
    if code:
        raise Refused(code)
    nvml.started += 1


def start_code(world: World) -> int:
    """What nvmlInit returns on a machine: 0, or the code whose text the machine's `management_error` contains."""
    state = world.management("nvml")
    if state != "failing":
        return 0 if state == "ok" else LIBRARY_NOT_FOUND
    said = str((world.fault or {}).get("management_error") or "").lower()
    codes = [code for code, text in ERRORS.items() if code and text.lower() in said]
    return max(codes, key=lambda code: len(ERRORS[code]), default=UNKNOWN_ERROR)  # the text that says most


@_answers("nvmlShutdown")
def _shutdown(nvml: Nvml) -> None:
    nvml.started -= 1


@_answers("nvmlErrorString")
def error_string(nvml: Nvml, code: int) -> str:
    return ERRORS.get(code, ERRORS[UNKNOWN_ERROR])


@_answers("nvmlSystemGetDriverVersion")
def _driver_version(nvml: Nvml) -> str:
    return str(nvml.world.get("driver.version", nvml.probe))


@_answers("nvmlSystemGetNVMLVersion")
def _nvml_version(nvml: Nvml) -> str:
    """The CUDA major version, then the driver's: 13.580.82.07."""
    runtime = str(nvml.world.get("driver.runtime", nvml.probe))
    return f"{runtime.partition('.')[0]}.{_driver_version(nvml)}"


@_answers("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def _cuda_version(nvml: Nvml) -> int:
    major, _, minor = str(nvml.world.get("driver.runtime", nvml.probe)).partition(".")
    return int(major) * 1000 + int(minor.partition(".")[0] or 0) * 10


@_answers("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def _count(nvml: Nvml) -> int:
    return len(nvml.cards)


@_answers("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def _by_index(nvml: Nvml, index: int) -> int:
    if not 0 <= index < len(nvml.cards):
        raise Refused(INVALID_ARGUMENT)
    return _HANDLES + index * 16


@_answers("nvmlDeviceGetHandleByUUID")
def _by_uuid(nvml: Nvml, uuid: str) -> int:
    return nvml.find("uuid", uuid)


@_answers("nvmlDeviceGetHandleBySerial")
def _by_serial(nvml: Nvml, serial: str) -> int:
    return nvml.find("serial", serial)


@_answers("nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2")
def _by_bus(nvml: Nvml, bus: str) -> int:
    return nvml.find("pci_bus_id", bus)


@_answers("nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber")
def _index(nvml: Nvml, handle: int) -> int:
    nvml.card(handle)
    return (handle - _HANDLES) // 16


def _leaf(key: str) -> Answer:
    def answer(nvml: Nvml, handle: int) -> Any:
        return nvml.value(handle, key)

    return answer


_LEAVES = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetSerial": "serial",
    "nvmlDeviceGetMemoryBusWidth": "memory_bus_width",
    "nvmlDeviceGetMultiGpuBoard": "is_multi_gpu_board",
}
ANSWERS.update({name: _leaf(key) for name, key in _LEAVES.items()})


@_answers("nvmlDeviceGetCudaComputeCapability")
def _capability(nvml: Nvml, handle: int) -> tuple[int, int]:
    major, minor = nvml.value(handle, "capability")
    return major, minor


@_answers("nvmlDeviceGetArchitecture")
def _architecture(nvml: Nvml, handle: int) -> int:
    capability = tuple(nvml.value(handle, "capability"))
    return next((code for since, code in _ARCHITECTURES if capability >= since), 0xFFFFFFFF)


@_answers("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
def _memory(nvml: Nvml, handle: int) -> dict[str, int]:
    """The total is what the CUDA runtime counts: a machine's file does not say what the driver keeps to itself."""
    total = nvml.value(handle, "total_memory")
    return {"total": total, "free": total - steady.MEMORY_USED, "used": steady.MEMORY_USED, "reserved": 0}


@_answers("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo_v3")
def _pci(nvml: Nvml, handle: int) -> dict[str, Any]:
    """The subsystem id, which no machine's file holds, is 0."""
    domain, bus, slot = str(nvml.value(handle, "pci_bus_id")).split(":")
    identity = int(nvml.value(handle, "pci_device_id"), 16) << 16 | int(nvml.value(handle, "pci_vendor_id"), 16)
    return {
        "busId": f"{int(domain, 16):08X}:{bus.upper()}:{slot.upper()}",
        "busIdLegacy": f"{int(domain, 16):04X}:{bus.upper()}:{slot.upper()}",
        "domain": int(domain, 16),
        "bus": int(bus, 16),
        "device": int(slot.partition(".")[0], 16),
        "pciDeviceId": identity,
        "pciSubSystemId": 0,
    }


@_answers("nvmlDeviceGetUtilizationRates")
def _utilization(nvml: Nvml, handle: int) -> dict[str, int]:
    nvml.card(handle)
    return {"gpu": steady.UTILIZATION, "memory": steady.UTILIZATION}


@_answers("nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization")
def _coder(nvml: Nvml, handle: int) -> tuple[int, int]:
    """Percent, and the sample period in microseconds."""
    nvml.card(handle)
    return steady.UTILIZATION, 1_000_000


@_answers("nvmlDeviceGetTemperature")
def _temperature(nvml: Nvml, handle: int, sensor: int) -> int:
    nvml.card(handle)
    if sensor != 0:
        raise Refused(INVALID_ARGUMENT)
    return steady.TEMPERATURE


@_answers("nvmlDeviceGetTemperatureV")
def _temperature_v(nvml: Nvml, handle: int) -> dict[str, int]:
    nvml.card(handle)
    return {"temperature": steady.TEMPERATURE}


@_answers("nvmlDeviceGetPowerUsage")
def _power(nvml: Nvml, handle: int) -> int:
    nvml.card(handle)
    return steady.POWER_DRAW * 1000


@_answers(
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementDefaultLimit"
)
def _power_limit(nvml: Nvml, handle: int) -> int:
    return int(nvml.value(handle, "power_limit")) * 1000


@_answers("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo")
def _clock(nvml: Nvml, handle: int, kind: int) -> int:
    """MHz. The current clock is the highest one: a machine's file holds no other."""
    if kind not in _CLOCKS:
        raise Refused(NOT_SUPPORTED)
    return int(nvml.value(handle, _CLOCKS[kind])) // 1000


@_answers(
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPowerState",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetAccountingMode",
    *(
        f"nvmlDeviceGet{kind}RunningProcesses{version}"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in ("", "_v2", "_v3")
    ),
)
def _zero(nvml: Nvml, handle: int) -> int:
    """Off, the default mode, P0, no process: what an idle server card says."""
    nvml.card(handle)
    return 0


@_answers("nvmlDeviceGetPowerManagementMode", "nvmlDeviceGetDisplayMode")
def _one(nvml: Nvml, handle: int) -> int:
    """On. A server card has a display mode, and no display: so an H200 with driver 580 (fixtures/recordings)."""
    nvml.card(handle)
    return 1


@_answers("nvmlDeviceGetMigMode")
def _mig(nvml: Nvml, handle: int) -> tuple[int, int]:
    """Off now and after a restart; NOT_SUPPORTED before compute capability 8.0, which has no MIG."""
    if tuple(nvml.value(handle, "capability")) < (8, 0):
        raise Refused(NOT_SUPPORTED)
    return 0, 0


@_answers("nvmlDeviceGetMaxMigDeviceCount")
def _mig_devices(nvml: Nvml, handle: int) -> int:
    _mig(nvml, handle)
    raise NoAnswerError(nvml.world.id, nvml.probe, "a machine's file does not say into how many parts a card divides")


@_answers("nvmlDeviceGetMigDeviceHandleByIndex")
def _mig_device(nvml: Nvml, handle: int, index: int) -> int:
    nvml.card(handle)
    raise Refused(NOT_FOUND)


@_answers("nvmlDeviceGetP2PStatus")
def _peer(nvml: Nvml, one: int, other: int, kind: int) -> int:
    """NVML_P2P_STATUS_*: OK over NVLink; without it the file would have to say more."""
    nvml.card(one), nvml.card(other)
    return 0 if _nvlinks(nvml) else 5


@_answers("nvmlDeviceGetNvLinkState")
def _nvlink(nvml: Nvml, handle: int, link: int) -> int:
    nvml.card(handle)
    links = _nvlinks(nvml)
    if not links:
        raise Refused(NOT_SUPPORTED)
    if link >= links:
        raise Refused(INVALID_ARGUMENT)
    return 1


def _nvlinks(nvml: Nvml) -> int:
    """Links of each card to the others: `interconnect` as `nvidia-smi topo -m` writes it, NV18."""
    word = str(nvml.world.get("interconnect", nvml.probe))
    return int(word[2:]) if word.startswith("NV") and word[2:].isdigit() else 0


@_answers("nvmlDeviceGetTopologyCommonAncestor")
def _ancestor(nvml: Nvml, one: int, other: int) -> int:
    nvml.card(one), nvml.card(other)
    raise NoAnswerError(nvml.world.id, nvml.probe, "a machine's file does not say how its PCIe bus branches")


@_answers("nvmlDeviceOnSameBoard")
def _same_board(nvml: Nvml, one: int, other: int) -> int:
    return int(nvml.card(one).index == nvml.card(other).index or bool(nvml.value(one, "is_multi_gpu_board")))
