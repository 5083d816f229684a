"""Device touches: every way from Python into a driver, watched at torch._C and at torch's lazy initialization.

Wrapping torch._C sees what a reload or a private copy of torch.cuda does. Exchanging the code of `_lazy_init` sees the
calls that C++ makes (`torch.empty(device="cuda")`) and the copies that other modules hold by name, and works where
torch._C has nothing to wrap: on a machine without that vendor's card the attempt is the event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from masquerade.watch.grades import PREFIXES, grade
from masquerade.watch.intercept import intercept
from masquerade.watch.recorder import Note, Recorder

OnImport = Callable[[str, Callable[[ModuleType], None]], None]


def _watched(call: Callable[..., Any], note: Note, name: str, level: str) -> Callable[..., Any]:
    probe = f"torch._C.{name}"

    def watched(*args: Any, **kwargs: Any) -> Any:
        note("touch", probe, level=level)
        return call(*args, **kwargs)

    watched.__name__ = watched.__qualname__ = name
    return watched


class Surface(NamedTuple):
    """Where the functions of one torch are: their names in torch._C, and modules that hold copies by name."""

    names: tuple[str, ...]
    copies: tuple[tuple[ModuleType, str], ...]


def surface(torch: ModuleType) -> Surface:
    """Look through `torch` once: it has thousands of names, and a child should not have to."""
    known = _surfaces.get(id(torch))
    if known is not None:
        return known
    core = torch._C
    names = tuple(name for name in dir(core) if name.startswith(PREFIXES))
    values = {id(getattr(core, name)) for name in names}
    exchanges = ("_exchange_device", "_maybe_exchange_device")
    copies = [(module, name) for module in (torch.cuda, torch.xpu) for name in exchanges]
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(("torch.cuda", "torch.xpu", "torch.accelerator")) and isinstance(module, ModuleType):
            copies += [(module, name) for name, value in vars(module).items() if id(value) in values]
    _surfaces[id(torch)] = made = Surface(names, tuple(dict.fromkeys(copies)))
    return made


_surfaces: dict[int, Surface] = {}


def _watch_streams(device: ModuleType, note: Note) -> None:
    """A stream is made in C++, below `_lazy_init`."""
    for name in ("Stream", "ExternalStream"):
        cls = getattr(device, name, None)
        if not isinstance(cls, type) or "__new__" not in vars(cls):
            continue
        make = cls.__new__
        what = f"{device.__name__}.{name}"

        def new(cls: Any, *args: Any, _make: Any = make, _what: str = what, **kwargs: Any) -> Any:
            note("touch", _what, level="device-init")
            return _make(cls, *args, **kwargs)

        cls.__new__ = new  # type: ignore[assignment]


def _watch_queries(cuda: ModuleType, note: Note) -> None:
    """torch.cuda asks NVML with ctypes inside these functions: a query, which harms no fork."""
    for name in ("_raw_device_count_nvml", "_raw_device_uuid_nvml"):
        call = getattr(cuda, name, None)
        if callable(call):
            setattr(cuda, name, _queried(call, note, f"torch.cuda.{name}"))


def _queried(call: Callable[..., Any], note: Note, what: str) -> Callable[..., Any]:
    def queried(*args: Any, **kwargs: Any) -> Any:
        note("touch", what, level="queried")
        return call(*args, **kwargs)

    return queried


def watch_torch(torch: ModuleType, recorder: Recorder, platform: str) -> None:
    """Watch an imported torch. On a cpu machine only `_lazy_init` is left to be called, and is."""
    note = recorder.note
    core = torch._C
    before = surface(torch)
    # What a fake has put there beyond what the build has is found by the names of the machine's own prefix.
    prefix = {"cuda": "_cuda_", "rocm": "_cuda_", "xpu": "_xpu_"}.get(platform, "")
    names = {*before.names, *(name for name in vars(core) if prefix and name.startswith(prefix))}
    replaced: dict[int, Callable[..., Any]] = {}
    for name in names:
        call = getattr(core, name, None)
        level = grade(name)
        if level == "clean" or isinstance(call, type) or not callable(call):
            continue
        if platform == "cpu" or (name.startswith("_cuda_") and platform == "xpu"):
            continue
        watched = _watched(call, note, name, level)
        replaced[id(call)] = watched
        setattr(core, name, watched)
    for module, name in before.copies:
        watched_copy = replaced.get(id(getattr(module, name, None)))
        if watched_copy is not None:
            setattr(module, name, watched_copy)
    _watch_queries(torch.cuda, note)
    for device in (torch.cuda, getattr(torch, "xpu", None)):
        if device is None:
            continue
        lazy = getattr(device, "_lazy_init", None)
        if isinstance(lazy, FunctionType):
            probe = f"{device.__name__}._lazy_init"
            intercept(lazy, lambda probe=probe: note("touch", probe, level="device-init"))  # type: ignore[misc]
        if platform in (("cuda", "rocm") if device is torch.cuda else ("xpu",)):
            _watch_streams(device, note)


def install(recorder: Recorder, on_import: OnImport, platform: str) -> None:
    """Watch torch and the management libraries, now or as soon as they are imported."""
    note = recorder.note
    on_import("torch", lambda torch: watch_torch(torch, recorder, platform))

    def management(names: tuple[str, ...]) -> Callable[[ModuleType], None]:
        def watch(module: ModuleType) -> None:
            for name in names:
                call = getattr(module, name, None)
                if callable(call):
                    setattr(module, name, _queried(call, note, f"{module.__name__}.{name}"))

        return watch

    on_import("pynvml", management(("nvmlInit", "nvmlInitWithFlags", "nvmlInit_v2")))
    on_import("amdsmi", management(("amdsmi_init",)))
