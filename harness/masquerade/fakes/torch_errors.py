"""Errors of the CUDA and HIP runtime, in the words of the runtime and of torch around them."""

from __future__ import annotations

import os
from types import ModuleType

#: Code -> name and text of CUDA's runtime. Source: cudaGetErrorName and cudaGetErrorString of libcudart 13.0.96.
CODES = {
    0: ("cudaSuccess", "no error"),
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    3: ("cudaErrorInitializationError", "initialization error"),
    4: ("cudaErrorCudartUnloading", "driver shutting down"),
    9: ("cudaErrorInvalidConfiguration", "invalid configuration argument"),
    35: ("cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"),
    36: ("cudaErrorCallRequiresNewerDriver", "API call is not supported in the installed CUDA driver"),
    46: ("cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    98: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    200: ("cudaErrorInvalidKernelImage", "device kernel image is invalid"),
    201: ("cudaErrorDeviceUninitialized", "invalid device context"),
    209: ("cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"),
    214: ("cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"),
    217: ("cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"),
    218: ("cudaErrorInvalidPtx", "a PTX JIT compilation failed"),
    304: ("cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    600: ("cudaErrorNotReady", "device not ready"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    701: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
    702: ("cudaErrorLaunchTimeout", "the launch timed out and was terminated"),
    704: ("cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"),
    710: ("cudaErrorAssert", "device-side assert triggered"),
    716: ("cudaErrorMisalignedAddress", "misaligned address"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    801: ("cudaErrorNotSupported", "operation not supported"),
    802: ("cudaErrorSystemNotReady", "system not yet initialized"),
    803: ("cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination"),
    804: ("cudaErrorCompatNotSupportedOnDevice", "forward compatibility was attempted on non supported HW"),
    999: ("cudaErrorUnknown", "unknown error"),
}

INITIALIZATION, INSUFFICIENT_DRIVER, NO_DEVICE, INVALID_DEVICE = 3, 35, 100, 101

#: Word of the platform -> what its asynchronous errors are debugged with.
_BLOCKING = {"CUDA": "CUDA_LAUNCH_BLOCKING=1", "HIP": "AMD_SERIALIZE_KERNEL=3"}

_MANUAL = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"


def message(word: str, code: int) -> str:
    """What c10's check says of a runtime call that failed; `word` is CUDA or HIP.

    Source: torch 2.11 with and without devices (fixtures/recordings); c10/cuda/CUDAMiscFunctions.cpp.
    """
    name, text = CODES.get(code, CODES[999])
    lines = [f"{word} error: {text}"]
    if code == INVALID_DEVICE:
        lines.append("GPU device may be out of range, do you have enough GPUs?")
    elif word == "CUDA":
        lines.append(f"Search for `{name}' in {_MANUAL} for more information.")
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        lines += [
            f"{word} kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
            "might be incorrect.",
            f"For debugging consider passing {_BLOCKING[word]}",
        ]
    if code in (INSUFFICIENT_DRIVER, NO_DEVICE):
        lines.append(
            "Device-side assertions were explicitly omitted for this error check; the error probably arose while "
            "initializing the DSA handlers."
        )
    else:
        lines.append(f"Compile with `TORCH_USE_{word}_DSA` to enable device-side assertions.")
    return "\n".join(lines) + "\n"


def error(torch: ModuleType, word: str, code: int) -> Exception:
    """The exception for it: torch.AcceleratorError, a RuntimeError; older releases raise that."""
    kind: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(message(word, code))
