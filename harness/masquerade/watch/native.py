"""Native libraries of a device loaded past Python.

Nothing can fake what they answer, so the attempt itself is the event.
"""

from __future__ import annotations

import os
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder

#: Library name, up to ".so" -> the platform whose driver stack it is part of.
LIBRARIES = {
    "libcuda": "cuda",
    "libcudart": "cuda",
    "libnvrtc": "cuda",
    "libnvidia-ml": "cuda",
    "libcublas": "cuda",
    "libcublasLt": "cuda",
    "libcudnn": "cuda",
    "libcufft": "cuda",
    "libcusparse": "cuda",
    "libcusolver": "cuda",
    "libcurand": "cuda",
    "libnvJitLink": "cuda",
    "libnccl": "cuda",
    "libcufile": "cuda",
    "nvcuda.dll": "cuda",
    "libamdhip64": "rocm",
    "libhsa-runtime64": "rocm",
    "libhsakmt": "rocm",
    "libhiprtc": "rocm",
    "librocm_smi64": "rocm",
    "libamd_smi": "rocm",
    "librocblas": "rocm",
    "libhipblas": "rocm",
    "libhipblaslt": "rocm",
    "librccl": "rocm",
    "libMIOpen": "rocm",
    "libroctx64": "rocm",
    "libze_loader": "xpu",
    "libze_intel_gpu": "xpu",
    "libsycl": "xpu",
    "libxpum": "xpu",
    "libigdrcl": "xpu",
}


def platform_of(library: str) -> str:
    """The platform that owns a library file, by its name up to ".so"; "" for all others."""
    return LIBRARIES.get(library.split(".so", 1)[0], LIBRARIES.get(library, ""))


def handlers(recorder: Recorder, platform: str) -> dict[str, Handler]:
    """Handlers that note `forbidden-native` for another platform's libraries and `native-load` for one's own."""
    note, fsdecode, anything = recorder.note, os.fsdecode, Exception

    def opened(args: tuple[Any, ...]) -> None:
        try:
            file = fsdecode(args[0])
        except anything:
            return  # None or a handle: the program itself
        library = file.rpartition("/")[2]
        owner = platform_of(library)
        if owner:
            kind = "native-load" if platform in (owner, "here") else "forbidden-native"
            note(kind, library, owner=owner, file=file)

    return {"ctypes.dlopen": opened}
