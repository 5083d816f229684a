"""Device touches: every way from Python into a driver, watched at torch._C and at torch's lazy initialization.

Wrapping torch._C sees what a reload or a private copy of torch.cuda does. Exchanging the code of `_lazy_init` sees the
calls that C++ makes (`torch.empty(device="cuda")`) and the copies that other modules hold by name, and works where
torch._C has nothing to wrap: on a machine without that vendor's card the attempt is the event.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, cast

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
    """Where the functions of one torch are.

    levels: name in torch._C -> how far it reaches, of those that reach anywhere. last: the newest name in torch._C.
    copies: modules that hold such a function by name.
    """

    levels: dict[str, str]
    last: str
    copies: tuple[tuple[ModuleType, str], ...]


def surface(torch: ModuleType) -> Surface:
    """Look through `torch` once: it has thousands of names, and a child should not have to."""
    known = _surfaces.get(id(torch))
    if known is not None:
        return known
    core = torch._C
    names = [name for name in dir(core) if name.startswith(PREFIXES)]
    levels = {name: level for name in names if (level := grade(name)) != "clean"}
    values = {id(getattr(core, name)) for name in names}
    exchanges = ("_exchange_device", "_maybe_exchange_device")
    copies = [(module, name) for module in (torch.cuda, torch.xpu) for name in exchanges]
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(("torch.cuda", "torch.xpu", "torch.accelerator")) and isinstance(module, ModuleType):
            copies += [(module, name) for name, value in vars(module).items() if id(value) in values]
    _surfaces[id(torch)] = made = Surface(levels, next(reversed(vars(core))), tuple(dict.fromkeys(copies)))
    return made


_surfaces: dict[int, Surface] = {}


#: Classes of torch.cuda and torch.xpu that C++ makes below `_lazy_init` -> how far that reaches. A graph asks for the
#: current stream and a pool for the current device (ATen/cuda/CUDAGraph.cpp, ATen/cuda/MemPool.cpp).
CLASSES = {
    "Stream": "device-init",
    "ExternalStream": "device-init",
    "CUDAGraph": "fork-poison",
    "XPUGraph": "fork-poison",
    "MemPool": "fork-poison",
}


def _watch_classes(device: ModuleType, note: Note, own: bool) -> None:
    """`own` where the machine has that vendor's cards. Elsewhere an attempt is the event, but a stream is its error."""
    for name, level in CLASSES.items():
        if not own and level == "device-init":
            continue
        cls = getattr(device, name, None)
        if not isinstance(cls, type):
            continue
        make = cls.__new__
        what = f"{device.__name__}.{name}"
        plain: bool = make is cast("Any", object.__new__)  # takes no arguments where a class has a __new__ of its own

        def new(
            cls: Any,
            *args: Any,
            _make: Any = make,
            _what: str = what,
            _level: str = level,
            _plain: bool = plain,
            **kw: Any,
        ) -> Any:
            note("touch", _what, level=_level)
            return _make(cls) if _plain else _make(cls, *args, **kw)

        cls.__new__ = new  # type: ignore[assignment]


def _watch_nested(torch: Any, note: Note) -> None:
    """A nested tensor is made in C++, which asks for a device's guard before any operator."""
    nested = getattr(torch._C, "_nested", None)
    make = getattr(nested, "nested_tensor", None)
    if make is None:
        return

    def nested_tensor(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if str(device).partition(":")[0] in ("cuda", "xpu"):
            note("touch", "torch.nested.nested_tensor", level="device-init")
        return make(*args, **kwargs)

    nested.nested_tensor = nested_tensor  # type: ignore[union-attr]


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


def _levels(core: ModuleType, before: Surface, platform: str) -> dict[str, str]:
    """Names in torch._C that reach into a device of this platform, with what a fake has put there since."""
    if platform == "cpu":
        return {}
    # A look at all the thousands of names would cost a forked child a page of memory for most of them.
    added = itertools.takewhile(lambda name: name != before.last, reversed(vars(core)))
    prefix = "_xpu_" if platform == "xpu" else "_cuda_"
    graded = {name: grade(name) for name in added if name.startswith(prefix)}
    levels = before.levels | {name: level for name, level in graded.items() if level != "clean"}
    return {name: level for name, level in levels.items() if platform != "xpu" or not name.startswith("_cuda_")}


def watch_torch(torch: ModuleType, recorder: Recorder, platform: str) -> None:
    """Watch an imported torch. On a cpu machine only `_lazy_init` is left to be called, and is."""
    note = recorder.note
    core = torch._C
    before = surface(torch)
    replaced: dict[int, Callable[..., Any]] = {}
    for name, level in _levels(core, before, platform).items():
        call = getattr(core, name, None)
        if isinstance(call, type) or not callable(call):
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
        _watch_classes(device, note, platform in (("cuda", "rocm") if device is torch.cuda else ("xpu",)))
    _watch_nested(torch, note)


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
