"""CUDA graphs, memory pools and profiler ranges: C++ classes and modules that only a build for the platform has.

No work runs on a faked device: a graph and a pool can be made and told apart, and what would run a graph is refused.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.torch_streams import rebase
from masquerade.fakes.world import NoAnswerError

#: Kind (cuda or xpu) -> its class over torch's C++ graphs.
_GRAPH = {"cuda": "CUDAGraph", "xpu": "XPUGraph"}

#: Kind -> the function of torch._C that numbers a pool.
_HANDLE = {"cuda": "_graph_pool_handle", "xpu": "_xpu_graph_pool_handle"}

#: Kind -> name -> the class over answers, made once in a server; and the runtime that answers in this process.
_classes: dict[str, dict[str, type]] = {}
_running: dict[str, Runtime] = {}

#: The second number of a pool; 1 was the first one on torch 2.14.1+cu130.
_pools = itertools.count(1)


def prepare(torch: ModuleType, kind: str) -> None:
    """Make the classes. They ask for the runtime when they are used."""
    device: Any = getattr(torch, kind, None)
    made = {}
    graph = getattr(device, _GRAPH[kind], None)
    if graph is not None:
        made[_GRAPH[kind]] = rebase(graph, _graph_base(kind, graph))
    if hasattr(device, "MemPool"):
        made["MemPool"] = rebase(device.MemPool, _pool_base(kind))
    _classes[kind] = made


def install(torch: ModuleType, runtime: Runtime) -> None:
    """Put the classes in the place of torch's own, and answers under the names that its modules hold."""
    kind, core = runtime.kind, torch._C
    if kind not in _classes:
        prepare(torch, kind)
    _running[kind] = runtime
    answers: dict[str, Callable[..., Any]] = {_HANDLE[kind]: lambda: (0, next(_pools))}
    for verb in ("beginAllocateToPool", "beginAllocateCurrentThreadToPool", "endAllocateToPool", "releasePool"):
        answers[f"_{kind}_{verb}"] = lambda device, pool, *more: None  # nothing is allocated on a faked device
    vars(core).update(answers)
    for module in _modules(torch, kind):
        for name in [name for name in vars(module) if name.startswith(f"_{kind}_") or name in answers]:
            if name in vars(core):
                setattr(module, name, vars(core)[name])
    _put(torch, kind, _classes[kind])
    if kind == "cuda":
        torch._C._nvtx = torch.cuda.nvtx._nvtx = _ranges(runtime)


def remove(torch: ModuleType, kind: str) -> None:
    """Take away from a torch built for the platform what a build for another one does not have."""
    dummy = torch._utils._dummy_type
    _put(torch, kind, {name: rebase(cls, dummy(name)) for name, cls in _classes.get(kind, {}).items()})
    for name in (_HANDLE[kind], f"_{kind}_isCurrentStreamCapturing"):
        made = dummy(name)
        vars(torch._C)[name] = made
        for module in _modules(torch, kind):
            if hasattr(module, name):
                setattr(module, name, made)
    if kind == "cuda":
        torch.cuda.nvtx._nvtx = SimpleNamespace(rangePushA=_no_ranges, rangePop=_no_ranges, markA=_no_ranges)


def _no_ranges(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def _modules(torch: ModuleType, kind: str) -> list[ModuleType]:
    names = (f"torch.{kind}.graphs", f"torch.{kind}.memory")
    return [sys.modules[name] for name in names if name in sys.modules]


def _put(torch: ModuleType, kind: str, classes: dict[str, type]) -> None:
    for module in (getattr(torch, kind), *_modules(torch, kind)):
        for name, cls in classes.items():
            if hasattr(module, name):
                setattr(module, name, cls)


def _graph_base(kind: str, graph: type) -> type:
    """The base of a graph class. Making one asks for the current stream, which starts the driver."""

    class GraphBase:
        _has_graph_exec = False

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            _running[kind].enter()
            return super().__new__(cls)

        def reset(self) -> None:
            return None

    def refuse(name: str) -> Callable[..., Any]:
        def refused(self: Any, *args: Any, **kwargs: Any) -> Any:
            probe = f"torch.{kind}.{graph.__name__}.{name}"
            raise NoAnswerError(_running[kind].world.id, probe, "nothing runs on the device")

        return refused

    for name, value in vars(graph).items():
        if callable(value) and not name.startswith("_") and name != "reset":
            setattr(GraphBase, name, refuse(name))
    return GraphBase


def _pool_base(kind: str) -> type:
    """The base of torch.cuda.MemPool. Making one asks for the current device, which starts the driver."""

    class PoolBase:
        def __init__(self, allocator: Any = None, *args: Any) -> None:
            _running[kind].start()
            self._allocator, self._id = allocator, (0, next(_pools))

        @property
        def allocator(self) -> Any:
            return self._allocator

        @property
        def id(self) -> tuple[int, int]:
            return self._id

        def use_count(self) -> int:
            return 1

    return PoolBase


def _ranges(runtime: Runtime) -> ModuleType:
    """The module torch._C._nvtx where no profiler listens.

    NVTX then answers -2, NVTX_NO_PUSH_POP_TRACKING, and 0 for a range's handle (nvtxImplCore.h; so read on torch
    2.14.1+cu130). The same names are ROCTx on ROCm, which counts for itself in each thread (roctracer's roctx.cpp).
    """
    local, handles = threading.local(), itertools.count(1)
    counts = runtime.world.platform == "rocm"

    def push(message: str) -> int:
        if not isinstance(message, str):
            raise TypeError(f"rangePushA(): incompatible function arguments: {message!r} is no str")
        depth: int = getattr(local, "depth", 0)
        local.depth = depth + 1
        return depth if counts else -2

    def pop() -> int:
        if not counts:
            return -2
        local.depth = getattr(local, "depth", 0) - 1
        if local.depth < 0:
            local.depth = 0
            return -1
        return int(local.depth)

    def device_range(*args: Any) -> Any:
        raise NoAnswerError(runtime.world.id, "torch._C._nvtx.deviceRangeStart", "no stream runs on the device")

    module = ModuleType("torch._C._nvtx")
    vars(module).update(
        rangePushA=push,
        rangePop=pop,
        rangeStartA=lambda message: next(handles) if counts else 0,
        rangeEnd=lambda handle: None,
        markA=lambda message: None,
        deviceRangeStart=device_range,
        deviceRangeEnd=device_range,
    )
    return module
