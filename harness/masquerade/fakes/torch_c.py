"""The functions of torch._C that torch.cuda and torch.xpu stand on, answered from a machine.

Names come from torch/_C/__init__.pyi of the installed torch: each is answered here or raises a NoAnswerError with it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.world import NoAnswerError, World

Answer = Callable[..., Any]

#: Real names that the stub file of torch 2.11 to 2.14 leaves out.
UNLISTED = {
    "cuda": ("_cuda_isInBadFork", "_cuda_hasPrimaryContext", "_cuda_getHipblasltVersion"),
    "xpu": ("_xpu_isInBadFork",),
}


@lru_cache(maxsize=4)
def listed_names(torch_file: str, prefix: str) -> tuple[str, ...]:
    """Functions `_cuda_*` or `_xpu_*` in the stub file beside `torch_file`; only the unlisted ones without it."""
    stub = os.path.join(os.path.dirname(torch_file), "_C", "__init__.pyi")
    try:
        with open(stub, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        text = ""
    return tuple(sorted({*re.findall(rf"^def (_{prefix}_\w+)\(", text, re.M), *UNLISTED[prefix]}))


def version_number(text: str | None) -> int:
    """`13.0` as CUDA counts, 13000; 0 for none."""
    numbers = re.findall(r"\d+", text or "")
    return int(numbers[0]) * 1000 + int(numbers[1] if len(numbers) > 1 else 0) * 10 if numbers else 0


#: What torch says at the first setting of that mode. Source: torch/csrc/cuda/Module.cpp; fixtures/recordings.
_SYNC_DEBUG = "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations"


def _allocator() -> str:
    """The allocator that the environment names, as torch reads it when it is loaded (c10/cuda/CUDAAllocatorConfig)."""
    text = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    named = re.search(r"(?:^|,)\s*backend\s*:\s*(native|cudaMallocAsync)\s*(?:,|$)", text)
    return named[1] if named else "native"


def _memory_stats() -> dict[str, Any]:
    """The allocator's statistics before anything was allocated (c10/core/CachingDeviceAllocator.h)."""

    def stat() -> dict[str, dict[str, int]]:
        return {
            pool: {"current": 0, "peak": 0, "allocated": 0, "freed": 0} for pool in ("all", "small_pool", "large_pool")
        }

    names = ("allocation", "segment", "active", "inactive_split")
    sizes = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
    stats: dict[str, Any] = {name: stat() for name in names + sizes}
    stats.update(oversize_allocations=stat()["all"], oversize_segments=stat()["all"])
    stats.update(num_alloc_retries=0, num_ooms=0, num_sync_all_streams=0, num_device_alloc=0, num_device_free=0)
    stats["max_split_size"] = -1
    return stats


def cuda_answers(runtime: Runtime, on_open: Callable[[], None]) -> dict[str, Answer]:
    """Answers for `_cuda_*`; `on_open` runs after a successful `_cuda_init`, as C++ fills in torch.cuda then."""
    world = runtime.world
    settings: dict[str, Any] = {"benchmark_limit": 10, "sync_debug": 0, "metadata": "", "fraction": 1.0}
    backend = _allocator()

    def init() -> None:
        runtime.open()
        on_open()

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    def put(key: str) -> Answer:
        return lambda value, *rest: settings.__setitem__(key, value)

    def arch_flags() -> str | None:
        runtime.note()  # C++ does, though it starts no driver here
        flags = world.get("torch.arch_list", "torch.cuda.get_arch_list")
        return " ".join(flags) if flags else None

    def driver_version() -> int:
        return version_number(world.get("driver.runtime", "torch._C._cuda_getDriverVersion"))

    def initialized(answer: Answer) -> Answer:
        """As C++ does here, initialize first (THCPModule_setDevice_wrap and its like, torch/csrc/cuda/Module.cpp)."""

        def after(*args: Any) -> Any:
            runtime.torch.cuda._lazy_init()
            return answer(*args)

        return after

    def exchange(name: str) -> Answer:
        def exchange(index: int) -> int:
            # C++ looks at the number before it initializes.
            if not isinstance(index, int):
                raise RuntimeError(f"invalid argument to {name}")
            return int(initialized(runtime.exchange_device)(index)) if index >= 0 else -1

        return exchange

    def capturing() -> bool:
        runtime.work()
        return False

    def set_sync_debug(mode: int) -> None:
        if not settings.get("sync_debug_told"):
            settings["sync_debug_told"] = True
            warnings.warn(_SYNC_DEBUG, UserWarning, stacklevel=3)
        settings["sync_debug"] = mode

    def can_access_peer(device: int, peer: int) -> bool:
        runtime.device(device), runtime.device(peer)
        return device != peer and bool(world.get("peer_access", "torch.cuda.can_device_access_peer"))

    return {
        "_cuda_init": init,
        "_cuda_isInBadFork": runtime.in_bad_fork,
        "_cuda_getDeviceCount": runtime.count,
        "_cuda_getDevice": initialized(lambda: runtime.current),
        "_cuda_setDevice": initialized(runtime.set_device),
        "_cuda_exchangeDevice": exchange("exchangeDevice"),
        "_cuda_maybeExchangeDevice": exchange("maybeExchangeDevice"),
        "_cuda_getArchFlags": arch_flags,
        "_cuda_getCompiledVersion": lambda: version_number(world.known("torch.cuda") or world.known("torch.hip")),
        "_cuda_hasPrimaryContext": lambda index: runtime.started,
        "_cuda_canDeviceAccessPeer": can_access_peer,
        "_cuda_synchronize": nothing,
        "_cuda_ipc_collect": nothing,
        "_cuda_emptyCache": nothing,
        "_cuda_sleep": nothing,
        "_cuda_getCurrentStream": runtime.stream_triple,
        "_cuda_getDefaultStream": runtime.stream_triple,
        "_cuda_getCurrentRawStream": lambda index: 0,
        "_cuda_setStream": lambda stream_id, device_index, device_type: runtime.set_device(device_index),
        "_cuda_isCurrentStreamCapturing": capturing,
        "_cuda_getAllocatorBackend": lambda: backend,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: settings.get("caching", True),
        "_cuda_cudaCachingAllocator_enable": put("caching"),
        "_cuda_cudaCachingAllocator_set_allocator_settings": nothing,
        "_cuda_getMemoryFraction": lambda device: settings["fraction"],
        "_cuda_setMemoryFraction": put("fraction"),
        "_cuda_memoryStats": lambda device: _memory_stats(),
        "_cuda_hostMemoryStats": lambda: {},
        "_cuda_resetAccumulatedMemoryStats": nothing,
        "_cuda_resetPeakMemoryStats": nothing,
        "_cuda_resetAccumulatedHostMemoryStats": nothing,
        "_cuda_resetPeakHostMemoryStats": nothing,
        "_cuda_memorySnapshot": lambda *a: {"segments": [], "device_traces": [], "allocator_settings": {}},
        "_cuda_isHistoryEnabled": lambda: bool(settings.get("history")),
        "_cuda_record_memory_history": lambda *a, **k: settings.__setitem__("history", a[0] if a else None),
        "_cuda_record_memory_history_legacy": lambda *a, **k: settings.__setitem__("history", a[0] if a else None),
        "_cuda_setMemoryMetadata": put("metadata"),
        "_cuda_getMemoryMetadata": lambda: settings["metadata"],
        "_cuda_get_sync_debug_mode": lambda: settings["sync_debug"],
        "_cuda_set_sync_debug_mode": set_sync_debug,
        "_cuda_get_cudnn_benchmark_limit": lambda: settings["benchmark_limit"],
        "_cuda_set_cudnn_benchmark_limit": put("benchmark_limit"),
        "_cuda_get_conv_benchmark_empty_cache": lambda: settings.get("conv_empty_cache", True),
        "_cuda_set_conv_benchmark_empty_cache": put("conv_empty_cache"),
        "_cuda_clearCublasWorkspaces": nothing,
        "_cuda_tunableop_enable": put("tunable"),
        "_cuda_tunableop_is_enabled": lambda: bool(settings.get("tunable")),
        "_cuda_tunableop_tuning_enable": put("tuning"),
        "_cuda_tunableop_tuning_is_enabled": lambda: settings.get("tuning", True),
    }


def xpu_answers(runtime: Runtime, on_open: Callable[[], None]) -> dict[str, Answer]:
    """Answers for `_xpu_*`; `on_open` runs after a successful `_xpu_init`."""
    world = runtime.world
    settings: dict[str, Any] = {"fraction": 1.0}

    def init() -> None:
        runtime.open()
        on_open()

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    def memory_info(index: int) -> tuple[int, int]:
        total = runtime.device(index).get("total_memory", "torch.xpu.mem_get_info")
        return (total, total)

    def arch_flags() -> str:
        return ",".join(world.get("torch.arch_list", "torch.xpu.get_arch_list"))

    return {
        "_xpu_init": init,
        "_xpu_isInBadFork": runtime.in_bad_fork,
        "_xpu_getDeviceCount": runtime.count,
        "_xpu_getDevice": lambda: runtime.current,
        "_xpu_setDevice": runtime.set_device,
        "_xpu_exchangeDevice": runtime.exchange_device,
        "_xpu_maybeExchangeDevice": runtime.exchange_device,
        "_xpu_getArchFlags": arch_flags,
        "_xpu_synchronize": nothing,
        "_xpu_emptyCache": nothing,
        "_xpu_getCurrentStream": runtime.stream_triple,
        "_xpu_getCurrentRawStream": lambda index: 0,
        "_xpu_setStream": lambda stream_id, device_index, device_type: runtime.set_device(device_index),
        "_xpu_memoryStats": lambda device: _memory_stats(),
        "_xpu_resetAccumulatedMemoryStats": nothing,
        "_xpu_resetPeakMemoryStats": nothing,
        "_xpu_getMemoryInfo": memory_info,
        "_xpu_getMemoryFraction": lambda device: settings["fraction"],
        "_xpu_setMemoryFraction": lambda value, *rest: settings.__setitem__("fraction", value),
        "_xpu_memorySnapshot": lambda *a: {"segments": [], "device_traces": [], "allocator_settings": {}},
        "_xpu_recordMemoryHistory": nothing,
        "_xpu_isCurrentStreamCapturing": lambda: False,
    }


#: Name in torch._C -> a function that has no answer, made once in a server; and the machine that has none.
_unanswered: dict[str, Answer] = {}
_machine = ["?"]


def prepare(names: Iterable[str]) -> None:
    """Make a function for each name that raises NoAnswerError naming it."""
    for name in names:
        _unanswered[name] = _no_answer(name)


def _no_answer(name: str) -> Answer:
    def no_answer(*args: Any, **kwargs: Any) -> Any:
        raise NoAnswerError(_machine[0], f"torch._C.{name}")

    no_answer.__name__ = no_answer.__qualname__ = name
    return no_answer


def unanswered(world: World, names: Iterable[str]) -> dict[str, Answer]:
    """Functions that raise NoAnswerError naming themselves and the machine."""
    _machine[0] = world.id
    return {name: _unanswered[name] for name in names}
