"""Stand-ins: modules whose code really runs, and whose names can be held and passed on but not called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from .hooks import like_importlib
from .world import NoAnswerError, World

#: In front of the dotted path of a stand-in, in its origin and in the file name of its code.
ROOT = "<masquerade stand-in>"

#: The audit event of a stand-in that is executed; its argument is the name of the module that it stands for.
EXECUTED = "masquerade.stand-in"

_bootstrap: Any = sys.modules["_frozen_importlib"]


class StandInLoader:
    """Executes a stand-in: `fill(module)` sets its names, then `source`, which lies in `file` if anywhere, runs."""

    def __init__(
        self, name: str, source: str, fill: Callable[[ModuleType], None], *, package: bool = True, file: str = ""
    ) -> None:
        self.name, self.source, self.fill, self.package = name, source, fill, package
        self.path = origin(name, package)
        self.file = file or self.path

    def spec(self) -> ModuleSpec:
        loader: Any = self  # a loader by what it does: importlib.abc is slow to import
        spec = ModuleSpec(self.name, loader, origin=self.path, is_package=self.package)
        spec.has_location = True
        spec.cached = None
        if self.package:
            spec.submodule_search_locations = [self.path.rpartition("/")[0]]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.audit(EXECUTED, self.name)
        self.fill(module)
        _bootstrap._call_with_frames_removed(exec, self.get_code(self.name), module.__dict__)

    def get_source(self, name: str) -> str:
        return self.source

    def get_code(self, name: str) -> CodeType:
        return compile(self.source, self.file, "exec")

    def get_filename(self, name: str) -> str:
        return self.path

    def is_package(self, name: str) -> bool:
        return self.package

    def __repr__(self) -> str:
        return f"<stand-in loader of {self.name}>"


like_importlib(StandInLoader.exec_module)


def origin(name: str, package: bool = True) -> str:
    """`<masquerade stand-in>/aiter/ops/__init__.py` for `aiter.ops`."""
    return f"{ROOT}/{name.replace('.', '/')}{'/__init__' if package else ''}.py"


def is_stand_in(module: ModuleType | None) -> bool:
    return isinstance(getattr(getattr(module, "__spec__", None), "loader", None), StandInLoader)


def give_names(world: World, module: ModuleType) -> None:
    """Let a stand-in have every name that it is asked for, the same object each time."""
    name = module.__name__

    def __getattr__(attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = StandInName(world.id, f"{name}.{attribute}")
        module.__dict__[attribute] = value
        return value

    module.__dict__["__getattr__"] = __getattr__


class StandInName:
    """A name of a package that is not here. It can be held, imported, asked for further names and put into a type hint.

    Nothing is an instance of it, and a class may name it as its base. Calling it raises NoAnswerError.
    """

    def __init__(self, machine: str, name: str) -> None:
        self._masquerade = machine, name
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = self.__name__

    def __getattr__(self, attribute: str) -> StandInName:
        if attribute.startswith("__") and attribute.endswith("__"):
            raise AttributeError(attribute)
        machine, name = self._masquerade
        value = StandInName(machine, f"{name}.{attribute}")
        setattr(self, attribute, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine, name = self._masquerade
        raise NoAnswerError(machine, name, f"a stand-in of {name.partition('.')[0]} has no answer")

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<stand-in {self._masquerade[1]}>"
