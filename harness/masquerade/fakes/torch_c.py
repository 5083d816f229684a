"""The functions of torch._C that torch.cuda and torch.xpu stand on, answered from a machine.

Names come from torch/_C/__init__.pyi of the installed torch: each is answered here or raises a NoAnswerError with it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any

from masquerade.fakes import lives
from masquerade.fakes.torch_properties import cuda_properties, xpu_properties
from masquerade.fakes.world import Device, NoAnswerError, World

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


class Runtime:
    """The faked driver of one process: what is visible, which device is current, whether a fork can still use it."""

    def __init__(self, world: World, torch: ModuleType, kind: str) -> None:
        self.world, self.torch, self.kind = world, torch, kind
        self.current = 0
        self._devices: list[Device] | None = None
        self._started_in = 0
        lives.follow(self._moved)

    def _moved(self, old: int, new: int) -> None:
        if self._started_in == old:
            self._started_in = new

    def start(self) -> list[Device]:
        """Start the driver: it reads the visible-devices variables now and never again, and poisons later forks."""
        if self._devices is None:
            self._devices = self.world.visible()
            self._started_in = os.getpid()
        return self._devices

    def in_bad_fork(self) -> bool:
        return self._started_in not in (0, os.getpid())

    def fault(self, key: str) -> Any:
        return (self.world.fault or {}).get(key)

    def count(self) -> int:
        devices = self.start()
        counted = self.fault("count")
        if self.fault("count_warning"):
            warnings.warn(self.fault("count_warning"), UserWarning, stacklevel=3)
        return len(devices) if counted is None else int(counted)

    def device(self, index: int | None = None) -> Device:
        """The visible device `index`, or the current one. Raises what the real runtime raises for a wrong index."""
        devices = self.start()
        index = self.current if index is None or index < 0 else index
        if index >= len(devices):
            word = {"cuda": "CUDA", "rocm": "HIP"}.get(self.world.platform, "XPU")
            if self.kind == "xpu":
                available = f"only {len(devices)} devices are available."
                raise RuntimeError(f"device index out of range. Got {index}, but {available}")
            # torch.AcceleratorError is a RuntimeError; older releases raise that.
            raise getattr(self.torch, "AcceleratorError", RuntimeError)(
                f"{word} error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
            )
        return devices[index]

    def open(self) -> None:
        """Raises what the real initialization raises where no device can be used."""
        error = self.fault("init_error")
        self.start()
        if error:
            raise {"RuntimeError": RuntimeError, "AssertionError": AssertionError}.get(error["type"], RuntimeError)(
                error["message"]
            )
        if self.count() == 0:
            word = {"cuda": "CUDA GPUs", "rocm": "HIP GPUs"}.get(self.world.platform, "XPU devices")
            raise RuntimeError(f"No {word} are available")

    def properties(self, index: int) -> Any:
        if self.fault("properties_error"):
            raise RuntimeError(self.fault("properties_error"))
        make = xpu_properties if self.kind == "xpu" else cuda_properties
        return make(self.device(index))

    def set_device(self, index: int) -> None:
        if index >= 0:
            self.device(index)
            self.current = index

    def exchange_device(self, index: int) -> int:
        before = self.current
        if index < 0:
            return -1
        self.set_device(index)
        return before

    def stream_triple(self, index: int = -1) -> tuple[int, int, int]:
        """(stream id, device index, device type) of the default stream. Device types: c10/core/DeviceType.h."""
        return (0, self.current if index is None or index < 0 else index, 12 if self.kind == "xpu" else 1)


def version_number(text: str | None) -> int:
    """`13.0` as CUDA counts, 13000; 0 for none."""
    numbers = re.findall(r"\d+", text or "")
    return int(numbers[0]) * 1000 + int(numbers[1] if len(numbers) > 1 else 0) * 10 if numbers else 0


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

    def init() -> None:
        runtime.open()
        on_open()

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    def put(key: str) -> Answer:
        return lambda value, *rest: settings.__setitem__(key, value)

    def arch_flags() -> str | None:
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

    def can_access_peer(device: int, peer: int) -> bool:
        runtime.device(device), runtime.device(peer)
        return device != peer and bool(world.get("peer_access", "torch.cuda.can_device_access_peer"))

    return {
        "_cuda_init": init,
        "_cuda_isInBadFork": runtime.in_bad_fork,
        "_cuda_getDeviceCount": runtime.count,
        "_cuda_getDevice": initialized(lambda: runtime.current),
        "_cuda_setDevice": initialized(runtime.set_device),
        "_cuda_exchangeDevice": initialized(runtime.exchange_device),
        "_cuda_maybeExchangeDevice": initialized(runtime.exchange_device),
        "_cuda_getArchFlags": arch_flags,
        "_cuda_getCompiledVersion": lambda: version_number(world.known("torch.cuda") or world.known("torch.hip")),
        "_cuda_hasPrimaryContext": lambda index: runtime._started_in != 0,
        "_cuda_canDeviceAccessPeer": can_access_peer,
        "_cuda_synchronize": nothing,
        "_cuda_ipc_collect": nothing,
        "_cuda_emptyCache": nothing,
        "_cuda_sleep": nothing,
        "_cuda_getCurrentStream": runtime.stream_triple,
        "_cuda_getDefaultStream": runtime.stream_triple,
        "_cuda_getCurrentRawStream": lambda index: 0,
        "_cuda_setStream": lambda stream_id, device_index, device_type: runtime.set_device(device_index),
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_getAllocatorBackend": lambda: "native",
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
        "_cuda_set_sync_debug_mode": put("sync_debug"),
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
