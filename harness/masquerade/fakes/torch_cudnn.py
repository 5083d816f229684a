"""cuDNN, or MIOpen on ROCm, as torch.backends.cudnn asks for it: whether the build has it, and its version."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from masquerade.fakes.world import World


def install(torch: ModuleType, world: World) -> None:
    """Answer for torch._C._cudnn."""
    built = world.platform in ("cuda", "rocm") and world.known("torch.cudnn", "unknown") is not None
    torch._C._has_cudnn = built
    vars(torch._C).pop("_cudnn", None)
    # torch.backends.cudnn stands in front of the module whose globals its functions use.
    names = torch.backends.cudnn.version.__globals__
    was_built = names["_cudnn"] is not None
    names["_cudnn"], names["__cudnn_version"] = None, None
    if not built:
        names["_init"] = lambda: False
        return
    torch._C._cudnn = names["_cudnn"] = _library(world, str(torch.__version__))
    if not was_built:
        names["_init"] = lambda: _open(torch, names)  # a build with cuDNN has a function of its own


def _open(torch: ModuleType, names: dict[str, Any]) -> bool:
    """What torch.backends.cudnn._init does in a build with cuDNN. On CUDA it asks all devices for their capability."""
    if names["__cudnn_version"] is None:
        number = names["__cudnn_version"] = names["_cudnn"].getVersionInt()
        if torch.cuda.is_available() and not torch.version.hip:
            lowest = min(torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count()))
            if number >= 91100 and lowest < (7, 5):
                raise RuntimeError(f"cuDNN version {number} is not compatible with devices with SM < 7.5.")
    return True


#: Release of torch -> the cuDNN that its wheel for CUDA 13.0 pins; both read off torch.backends.cudnn.version().
_PINNED = {"2.11": 91900, "2.14": 92400}


def _library(world: World, torch_version: str) -> SimpleNamespace:
    def number() -> int:
        stated = int(world.get("torch.cudnn", "torch.backends.cudnn.version"))
        # A machine states the number of one wheel. The release beside the fake may be another one, with its own.
        release = ".".join(torch_version.split(".")[:2])
        return _PINNED.get(release, stated) if stated in _PINNED.values() else stated

    def version() -> tuple[int, int, int]:
        # cuDNN 9 counts 10000, 100 and 1; MIOpen 1000000, 1000 and 1. Source: torch/csrc/cuda/shared/cudnn.cpp.
        major, minor = (10_000, 100) if world.platform == "cuda" else (1_000_000, 1_000)
        return number() // major, number() % major // minor, number() % minor

    return SimpleNamespace(
        getRuntimeVersion=version, getCompileVersion=version, getVersionInt=number, is_cuda=world.platform == "cuda"
    )
