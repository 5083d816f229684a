"""How far a call of torch's runtime reaches into a device: the table behind every device-touch level.

Graded by what the C++ below does on a real machine (torch/csrc/cuda/Module.cpp, torch/csrc/xpu/Module.cpp, c10/cuda),
not by what `is_initialized()` says afterwards.
"""

from __future__ import annotations

#: Names of torch._C that start no driver: build facts, Python-side state, settings that are only stored.
CLEAN = frozenset([
    "_cuda_isInBadFork", "_cuda_getCompiledVersion", "_cuda_getArchFlags", "_cuda_getAllocatorBackend",
    "_cuda_isHistoryEnabled", "_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit",
    "_cuda_get_conv_benchmark_empty_cache", "_cuda_set_conv_benchmark_empty_cache", "_cuda_getMemoryMetadata",
    "_cuda_setMemoryMetadata", "_cuda_isCurrentStreamCapturing", "_cuda_getAllocator", "_cuda_customAllocator",
    "_cuda_changeCurrentAllocator", "_cuda_getCublasWorkspaceSize", "_cuda_setCublasWorkspaceSize",
    "_cuda_getCublasLtWorkspaceSize", "_cuda_setCublasLtWorkspaceSize", "_cuda_resetCublasWorkspaceSize",
    "_cuda_resetCublasLtWorkspaceSize", "_cuda_clearCublasWorkspaces", "_cuda_cudaCachingAllocator_enable",
    "_cuda_cudaCachingAllocator_is_enabled", "_cuda_cudaCachingAllocator_set_allocator_settings", "_cuda_emptyCache",
    "_cuda_memoryStats", "_cuda_memorySnapshot", "_cuda_resetPeakMemoryStats", "_cuda_resetAccumulatedMemoryStats",
    "_cuda_hostMemoryStats", "_cuda_resetPeakHostMemoryStats", "_cuda_resetAccumulatedHostMemoryStats",
    "_cuda_record_memory_history_legacy", "_cuda_attach_out_of_memory_observer",
    "_xpu_isInBadFork", "_xpu_getArchFlags", "_xpu_isCurrentStreamCapturing", "_xpu_getAllocator",
    "_xpu_customAllocator", "_xpu_changeCurrentAllocator", "_xpu_emptyCache", "_xpu_memoryStats", "_xpu_memorySnapshot",
    "_xpu_resetPeakMemoryStats", "_xpu_resetAccumulatedMemoryStats", "_xpu_graph_pool_handle",
    "_xpu_recordMemoryHistory",
    "_accelerator_getAccelerator", "_accelerator_isAllocatorInitialized", "_accelerator_emptyCache",
    "_accelerator_emptyHostCache", "_accelerator_getAllocatorSettings", "_accelerator_setAllocatorSettings",
    "_accelerator_getDeviceStats", "_accelerator_resetAccumulatedStats", "_accelerator_resetPeakStats",
    "_get_accelerator",
])  # fmt: skip

#: Names that start the driver and make no context: a fork can no longer use the device, `is_initialized()` stays False.
FORK_POISON = frozenset(
    ["_cuda_getDeviceCount", "_cuda_canDeviceAccessPeer", "_accelerator_hooks_device_count", "_cuda_getDevice"]
)

#: Counted by the management library (Level Zero's sysman on Intel): no fork is harmed.
QUERIED = frozenset(["_xpu_getDeviceCount"])

PREFIXES = ("_cuda_", "_xpu_", "_accelerator_")


def grade(name: str) -> str:
    """clean, queried, fork-poison or device-init for a function of torch._C."""
    if name in CLEAN or name.startswith("_cuda_tunableop_"):
        return "clean"
    if name in FORK_POISON:
        return "fork-poison"
    if name in QUERIED:
        return "queried"
    return "device-init"
