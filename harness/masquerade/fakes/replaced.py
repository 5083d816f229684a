"""Declared stand-ins: modules that cannot load here, as compiled extensions, are replaced by what was declared."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import hooks
from .standins import StandInLoader, give_names
from .world import World


def install(world: World) -> None:
    """Replace each module of `packages.stand_ins`, by one of names alone or by the user's module that it names."""
    packages = world.machine.get("packages") or {}
    for name, adapter in (packages.get("stand_ins") or {}).items():
        hooks.replace(name, _maker(world, name, adapter))


def _maker(world: World, name: str, adapter: str) -> hooks.MakeSpec:
    """What gives the specs of one stand-in and of all below it. The adapter is found when it is needed."""

    def fill(module: ModuleType) -> None:
        give_names(world, module)

    def make_spec(wanted: str) -> ModuleSpec:
        source, file = f'"""A declared stand-in of {wanted}, which was not executed."""\n', ""
        if adapter and wanted == name:
            source, file = _read(name, adapter)
        return StandInLoader(wanted, source, fill, file=file).spec()

    return make_spec


def _read(name: str, adapter: str) -> tuple[str, str]:
    """The source of the adapter, and its file. Raises ImportError where it has none."""
    spec: Any = importlib.util.find_spec(adapter)
    source = getattr(spec.loader, "get_source", lambda _: None)(adapter) if spec is not None else None
    if source is None:
        raise ImportError(f"the stand-in of {name} is to be {adapter}, and no source of such a module is there")
    return source, spec.origin or ""
