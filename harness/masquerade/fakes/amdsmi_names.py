"""Enums, errors and handles of amdsmi. Source: the amdsmi package 7.0.2 and the AMD SMI API reference."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

NOT_INIT, NOT_FOUND, DRIVER_NOT_LOADED = 32, 31, 34

#: Name and meaning of the status codes that the fakes return, as AmdSmiLibraryException words them.
STATUS = {
    1: "AMDSMI_STATUS_INVAL - Invalid parameters",
    2: "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported",
    4: "AMDSMI_STATUS_FAIL_LOAD_MODULE - Fail to load lib",
    6: "AMDSMI_STATUS_DRM_ERROR - Error when called libdrm",
    7: "AMDSMI_STATUS_API_FAILED - API call failed",
    8: "AMDSMI_STATUS_TIMEOUT - Timeout in API call",
    9: "AMDSMI_STATUS_RETRY - Retry operation",
    10: "AMDSMI_STATUS_NO_PERM - Permission Denied",
    14: "AMDSMI_STATUS_FILE_ERROR - Error opening file",
    15: "AMDSMI_STATUS_OUT_OF_RESOURCES - Not enough memory",
    18: "AMDSMI_STATUS_INIT_ERROR - Initialization error",
    30: "AMDSMI_STATUS_BUSY - Device busy",
    31: "AMDSMI_STATUS_NOT_FOUND - Device Not found",
    32: "AMDSMI_STATUS_NOT_INIT - Device not initialized",
    34: "AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded",
    40: "AMDSMI_STATUS_NO_DATA - No data was found for given input",
    51: "AMDSMI_STATUS_NO_DRV - No Energy and HSMP driver present",
    52: "AMDSMI_STATUS_FILE_NOT_FOUND - File or directory not found",
}


class AmdSmiException(Exception):
    """What all errors of amdsmi are."""

    err_code: int | None = None


class AmdSmiLibraryException(AmdSmiException):
    """The library returned a status other than success: `err_code`."""

    def __init__(self, err_code: int) -> None:
        super().__init__(abs(err_code))
        self.err_code: int = abs(err_code)
        self.err_info = STATUS.get(self.err_code, "AMDSMI_STATUS_UNKNOWN_ERROR - An unknown error occurred")

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code} | {self.err_info}"

    def get_error_info(self, detailed: bool = True) -> str:
        return self.err_info if detailed else self.err_info.partition(" - ")[0]

    def get_error_code(self) -> int:
        return self.err_code


class AmdSmiRetryException(AmdSmiLibraryException):
    def __init__(self) -> None:
        super().__init__(9)


class AmdSmiTimeoutException(AmdSmiLibraryException):
    def __init__(self) -> None:
        super().__init__(8)


class AmdSmiParameterException(AmdSmiException):
    """An argument is of the wrong type."""

    def __init__(self, receivedValue: Any, expectedType: Any, msg: str | None = None) -> None:
        super().__init__(msg)
        self.actualType, self.expectedType = type(receivedValue), expectedType
        wrong = f"Invalid parameter:\nActual type: {self.actualType}\nExpected type: {expectedType}"
        self.err_msg = msg if msg is not None else wrong

    def __str__(self) -> str:
        return self.err_msg


class AmdSmiKeyException(AmdSmiException):
    def __init__(self, key: str) -> None:
        super().__init__(f"Key {key} is missing from dictionary")
        self.key = key


class AmdSmiBdfFormatException(AmdSmiException):
    def __init__(self, bdf: Any) -> None:
        super().__init__(f"Wrong BDF format: {bdf}. It should be <domain>:<bus>:<device>.<function> in hexadecimal")
        self.bdf = bdf


class amdsmi_processor_handle:
    """One GPU: opaque to its holder."""

    def __init__(self, place: int) -> None:
        self._place = place


def _enum(name: str, names: str, start: int = 0) -> Any:
    """An IntEnum as amdsmi has it. A name may carry its number: `CRITICAL=5`."""
    members: dict[str, int] = {}
    number = start
    for word in names.split():
        member, _, given = word.partition("=")
        number = int(given) if given else number
        members[member] = number
        number += 1
    return IntEnum(name, members, module="amdsmi.amdsmi_interface")


AmdSmiInitFlags = _enum(
    "AmdSmiInitFlags",
    "INIT_ALL_PROCESSORS=4294967295 INIT_AMD_CPUS=1 INIT_AMD_GPUS=2 INIT_AMD_APUS=3 INIT_NON_AMD_CPUS=4 "
    "INIT_NON_AMD_GPUS=8",
)
AmdSmiTemperatureType = _enum("AmdSmiTemperatureType", "EDGE HOTSPOT JUNCTION=1 VRAM HBM_0 HBM_1 HBM_2 HBM_3 PLX")
AmdSmiTemperatureMetric = _enum(
    "AmdSmiTemperatureMetric",
    "CURRENT MAX MIN MAX_HYST MIN_HYST CRITICAL CRITICAL_HYST EMERGENCY EMERGENCY_HYST CRIT_MIN CRIT_MIN_HYST OFFSET "
    "LOWEST HIGHEST",
)
AmdSmiClkType = _enum("AmdSmiClkType", "SYS GFX=0 DF DCEF SOC MEM PCIE VCLK0 VCLK1 DCLK0 DCLK1")
AmdSmiLinkType = _enum(
    "AmdSmiLinkType",
    " ".join(f"AMDSMI_LINK_TYPE_{name}" for name in ("INTERNAL", "PCIE", "XGMI", "NOT_APPLICABLE", "UNKNOWN")),
)
AmdSmiMemoryType = _enum("AmdSmiMemoryType", "VRAM VIS_VRAM GTT")
AmdSmiProcessorType = _enum(
    "AmdSmiProcessorType",
    "UNKNOWN AMDSMI_PROCESSOR_TYPE_AMD_GPU AMDSMI_PROCESSOR_TYPE_AMD_CPU AMDSMI_PROCESSOR_TYPE_NON_AMD_GPU "
    "AMDSMI_PROCESSOR_TYPE_NON_AMD_CPU",
)
AmdSmiVramType = _enum(
    "AmdSmiVramType",
    "UNKNOWN HBM HBM2 HBM2E HBM3 DDR2=10 DDR3 DDR4 GDDR1=17 GDDR2 GDDR3 GDDR4 GDDR5 GDDR6 GDDR7 MAX=23",
)

NAMES: dict[str, Any] = {name: value for name, value in list(globals().items()) if name.startswith("AmdSmi")}
for _name, _value in NAMES.items():
    if _name.endswith("Exception"):
        _value.__module__ = "amdsmi.amdsmi_exception"
amdsmi_processor_handle.__module__ = "amdsmi.amdsmi_wrapper"
NAMES["amdsmi_processor_handle"] = amdsmi_processor_handle
