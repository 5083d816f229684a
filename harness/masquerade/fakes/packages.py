"""Vendor packages that a machine has or lacks: find_spec, import, pkgutil and importlib.metadata say so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from . import distributions, hooks
from .standins import StandInLoader, give_names, is_stand_in
from .world import UNKNOWN, UnknownValueError, World

#: Answered by modules of their own (pynvml.py, amdsmi.py); only their metadata is looked up here.
MANAGEMENT = frozenset({"pynvml", "amdsmi"})

#: What a package's own import does on the real machine, by `on_import` of the machine's file.
ON_IMPORT = {
    "device-init": {
        "cuda": "torch.cuda.current_device()",
        "rocm": "torch.cuda.current_device()",
        "xpu": "torch.xpu.current_device()",
    },
    "fork-poison": {
        "cuda": "torch._C._cuda_getDeviceCount()",
        "rocm": "torch._C._cuda_getDeviceCount()",
        "xpu": "torch._C._xpu_getDeviceCount()",
    },
    "queried": {"cuda": "pynvml.nvmlInit()", "rocm": "amdsmi.amdsmi_init()"},
}
_SOURCE = """\
try:
    import {module}
except ModuleNotFoundError:
    pass
else:
    {action}
"""


def install(world: World) -> None:
    """Hide absent packages, and let stand-ins answer for present ones that are not installed."""
    packages = world.machine.get("packages") or {}
    present: dict[str, dict[str, Any]] = {
        name: values or {} for name, values in (packages.get("present") or {}).items()
    }
    absent: list[str] = [name for name in packages.get("absent") or () if name not in present]
    hooks.hide(absent)
    for name, values in present.items():
        if name not in MANAGEMENT:
            hooks.serve(name, _maker(world, name, values))

    def stand_ins() -> dict[str, dict[str, Any]]:
        return {name: values for name, values in present.items() if not hooks.installed(name)}

    distributions.install(world, stand_ins)
    hooks.on_import("pkgutil", lambda module: _list_modules(module, stand_ins))


def _maker(world: World, package: str, values: dict[str, Any]) -> hooks.MakeSpec:
    """What gives the specs of one package: itself, and any dotted name below while it is a stand-in."""
    action = ON_IMPORT.get(values.get("on_import") or "", {}).get(world.platform)
    source = _SOURCE.format(module=action.partition(".")[0], action=action) if action else ""

    def make_spec(name: str) -> ModuleSpec | None:
        if name != package and not is_stand_in(sys.modules.get(package)):
            return None
        title = f'"""A stand-in of {name}, which machine {world.id} has and this environment lacks."""\n'
        return StandInLoader(name, title + (source if name == package else ""), fill).spec()

    def fill(module: ModuleType) -> None:
        name = module.__name__
        version = values.get("version", UNKNOWN)
        if name == package and version != UNKNOWN:
            module.__dict__["__version__"] = version

        give_names(world, module)
        others = module.__dict__["__getattr__"]

        def __getattr__(attribute: str) -> Any:
            if attribute == "__version__" and name == package:
                raise UnknownValueError(world.id, f"packages.present.{package}.version", f"{package}.__version__")
            return others(attribute)

        module.__dict__["__getattr__"] = __getattr__

    return make_spec


def _list_modules(pkgutil: ModuleType, stand_ins: Callable[[], dict[str, Any]]) -> None:
    """Let pkgutil.iter_modules() list top-level packages as find_spec finds them."""
    listed = pkgutil.iter_modules
    if listed.__module__ == __name__:
        return

    def iter_modules(path: Any = None, prefix: str = "") -> Iterator[Any]:
        hidden = {prefix + name for name in hooks.hidden()} if path is None else set()
        for info in listed(path, prefix):
            if info.name not in hidden:
                yield info
        if path is None:
            for name in stand_ins():
                yield pkgutil.ModuleInfo(PathFinder, prefix + name, True)

    iter_modules.__doc__ = listed.__doc__
    pkgutil.iter_modules = iter_modules  # type: ignore[attr-defined]
