"""Streams and events: the C++ base classes of torch.cuda.Stream and torch.cuda.Event, answered in Python.

No work runs on a faked device, so every stream is idle and every event has passed.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from types import CellType, FunctionType, ModuleType
from typing import Any

from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.world import NoAnswerError

_numbers = itertools.count(3)

#: A stream's native handle is an address, of which nobody reads what is there.
_FIRST_HANDLE = 0x5354_0000_0000

#: Kind (cuda or xpu) -> the classes over answers, made once in a server; and the runtime that answers in this process.
_classes: dict[str, dict[str, type]] = {}
_running: dict[str, Runtime] = {}

#: Kind -> the attributes that hold the native handles of a stream and of an event.
_HANDLES = {"cuda": ("cuda_stream", "cuda_event"), "xpu": ("sycl_queue", "sycl_event")}


def prepare(torch: ModuleType, kind: str) -> None:
    """Make the classes. They ask for the runtime when they are used."""
    device = getattr(torch, kind, None)
    if device is None:
        return
    stream, event = _HANDLES[kind]
    made = {
        "Stream": rebase(device.Stream, stream_base(torch, kind, stream)),
        "Event": rebase(device.Event, event_base(torch, kind, event)),
    }
    if hasattr(device, "ExternalStream"):
        made["ExternalStream"] = rebase(device.ExternalStream, made["Stream"])
    _classes[kind] = made


def install(torch: ModuleType, runtime: Runtime) -> None:
    """Put the classes in the place of torch's own."""
    kind = runtime.kind
    if kind not in _classes:
        prepare(torch, kind)
    _running[kind] = runtime
    device = getattr(torch, kind)
    for name, cls in _classes[kind].items():
        setattr(device, name, cls)
        setattr(device.streams, name, cls)


def install_generic(torch: Any) -> None:
    """Answer for torch.Stream of a device type, which C++ asks the device guard for.

    On a machine without the device it refuses, after an attempt that a watcher can see.
    """
    real = torch._C.Stream

    class AnyStream(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, (real, *bases))

    class Stream(real, metaclass=AnyStream):  # type: ignore[misc, valid-type]
        __doc__ = real.__doc__

        def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
            if "device_type" in kwargs or (isinstance(device, int) and args):
                return real(*(() if device is None else (device,)), *args, **kwargs)
            where = torch._C._get_accelerator() if device is None else torch.device(device)
            if where.type not in ("cuda", "xpu"):
                return real(device, *args, **kwargs)
            module = getattr(torch, where.type)
            runtime = _running.get(where.type)
            if runtime is None:
                with suppress(Exception):
                    module._lazy_init()
                return real(device, *args, **kwargs)
            module._lazy_init()
            index = runtime.current if where.index is None else where.index
            runtime.device(index)
            kind = runtime.stream_triple()[2]
            return real.__new__(cls, stream_id=next(_numbers), device_index=index, device_type=kind)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            pass

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

        def synchronize(self) -> None:
            return None

        def wait_stream(self, stream: Any) -> None:
            return None

        def wait_event(self, event: Any) -> None:
            return None

    bases = tuple(made["Stream"] for kind, made in _classes.items() if kind in _running)
    Stream.__module__, Stream.__qualname__ = "torch", "Stream"
    torch.Stream = Stream


def generic(torch: Any, stream: Any) -> Any:
    """The torch.Stream of a stream of torch.cuda or torch.xpu."""
    names = ("stream_id", "device_index", "device_type")
    return torch._C.Stream.__new__(torch.Stream, **{name: getattr(stream, name) for name in names})


def rebase(cls: type, base: type) -> type:
    """A copy of `cls` over another base, its methods bound to the copy so that `super()` works in them.

    On a CUDA build the real base is laid out in C and cannot be exchanged in place.
    """
    cell = CellType()
    members: dict[str, Any] = {}

    def bound(function: Any) -> Any:
        if not isinstance(function, FunctionType) or "__class__" not in function.__code__.co_freevars:
            return function
        closure = tuple(
            cell if free == "__class__" else old
            for free, old in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
        copy.__kwdefaults__, copy.__doc__ = function.__kwdefaults__, function.__doc__
        copy.__qualname__ = function.__qualname__
        return copy

    for name, value in vars(cls).items():
        if name in ("__dict__", "__weakref__"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = type(value)(bound(value.__func__))
        elif isinstance(value, property):
            value = property(bound(value.fget), bound(value.fset), bound(value.fdel), value.__doc__)
        members[name] = bound(value)
    made = type(cls)(cls.__name__, (base,), members)
    cell.cell_contents = made
    return made


def stream_base(torch: ModuleType, kind: str, raw: str) -> type:
    """The base of a stream class; `raw` is the name of the attribute with the native handle."""

    class StreamBase:
        stream_id: int
        device_index: int
        device_type: int
        device: Any
        priority: int

        def __new__(
            cls,
            priority: int = 0,
            stream_id: int = 0,
            device_index: int = -1,
            device_type: int = 0,
            stream_ptr: int = 0,
        ) -> Any:
            self, runtime = super().__new__(cls), _running[kind]
            runtime.enter()
            index = runtime.current if device_index < 0 else device_index
            named = stream_id or device_index >= 0
            self.stream_id = stream_id if named else next(_numbers)
            self.device_index, self.device_type = index, runtime.stream_triple()[2]
            self.device = torch.device(kind, index)
            self.priority = priority
            setattr(self, raw, stream_ptr or (_FIRST_HANDLE + self.stream_id if self.stream_id else 0))
            return self

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

        def synchronize(self) -> None:
            return None

        @staticmethod
        def priority_range() -> tuple[int, int]:
            world = _running[kind].world
            if world.platform == "cuda":
                _running[kind].work()
                # c10/cuda/CUDAStream.h: the card's range cut to four priorities; (0, -3) was read on an H200 with
                # torch 2.11.
                return (0, -3)
            raise NoAnswerError(world.id, f"torch.{kind}.Stream.priority_range")

        def __eq__(self, other: object) -> bool:
            key = ("stream_id", "device_index", "device_type")
            return all(getattr(self, name) == getattr(other, name, None) for name in key)

        def __hash__(self) -> int:
            return hash((self.stream_id, self.device_index, self.device_type))

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: Any) -> None:
            return None

    return StreamBase


def event_base(torch: ModuleType, kind: str, raw: str) -> type:
    """The base of an event class."""

    class EventBase:
        device: Any
        _timed: bool

        def __new__(cls, enable_timing: bool = False, *args: Any, **kwargs: Any) -> Any:
            self = super().__new__(cls)
            self._timed = bool(enable_timing)
            self.device = torch.device(kind, _running[kind].current)
            setattr(self, raw, 0)
            return self

        def record(self, stream: Any = None) -> None:
            setattr(self, raw, next(_numbers))

        def wait(self, stream: Any = None) -> None:
            return None

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            return None

        def elapsed_time(self, other: Any) -> float:
            # c10/cuda/CUDAEvent.h checks both before it asks the device.
            if kind == "cuda" and not (self._timed and other._timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if kind == "cuda" and not (getattr(self, raw) and getattr(other, raw)):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            world = _running[kind].world
            raise NoAnswerError(world.id, f"torch.{kind}.Event.elapsed_time", "nothing ran on the device")

        def ipc_handle(self) -> bytes:
            raise NoAnswerError(_running[kind].world.id, f"torch.{kind}.Event.ipc_handle")

    return EventBase
