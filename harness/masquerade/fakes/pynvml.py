"""`import pynvml` on a machine with NVML: an installed binding over the library that answers, else the binding here.

Where the machine has no NVML the module is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

from . import hooks, libraries
from .nvml import ANSWERS, ERRORS, Nvml, Refused
from .nvml_constants import CODES, CONSTANTS
from .standins import StandInLoader
from .world import NoAnswerError, World

NAME = "pynvml"


def install(world: World) -> None:
    """Give the machine's NVML to ctypes and to `import pynvml`, or hide both."""
    nvml = Nvml(world)
    libraries.install(world, nvml)
    if world.management("nvml") == "absent":
        hooks.hide([NAME])
        return
    loaded = sys.modules.get(NAME)
    title = f'"""A stand-in of the NVML bindings, over the NVML of machine {world.id}."""\n'

    def make_spec(name: str) -> ModuleSpec | None:
        if name != NAME:
            return None
        # torch executes it with itself on CUDA alone: elsewhere whoever imports it first does, and is to be seen.
        if loaded is not None and world.platform == "cuda" and name not in sys.modules:
            return _AsBefore(loaded).spec()
        if hooks.installed(NAME):
            return None
        return StandInLoader(name, title, lambda module: fill(module, nvml), package=False).spec()

    hooks.serve(NAME, make_spec, instead=True)


class _AsBefore:
    """Loads a module by giving back the one that was loaded before the disguise: executing 8,000 lines costs 5 ms."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.found = module, module.__spec__

    def spec(self) -> ModuleSpec:
        return ModuleSpec(NAME, self, origin=self.found.origin if self.found else None)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.found


class c_nvmlDevice_t:
    """A device handle: opaque to its holder."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, c_nvmlDevice_t) and other._address == self._address

    def __hash__(self) -> int:
        return hash(self._address)


class nvmlFriendlyObject:
    """The fields of a struct as attributes, printed as they are."""

    def __init__(self, dictionary: dict[str, Any]) -> None:
        self.__dict__.update(dictionary)

    def __str__(self) -> str:
        return str(self.__dict__)


class NVMLError(Exception):
    """An NVML return code other than success. Made with a code, it is of the subclass named after that code."""

    _valClassMapping: ClassVar[dict[int, type[NVMLError]]] = {}
    value: int

    def __new__(cls, value: int = 999) -> NVMLError:
        error = super().__new__(cls._valClassMapping.get(value, cls) if cls is NVMLError else cls)
        error.value = value
        return error

    def __str__(self) -> str:
        return ERRORS.get(self.value, f"NVML Error with code {self.value}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NVMLError) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _subclass(name: str, code: int) -> type[NVMLError]:
    def __new__(cls: type[NVMLError], *args: Any) -> NVMLError:
        return NVMLError.__new__(cls, code)

    def __init__(self: NVMLError, *args: Any) -> None:
        Exception.__init__(self, code)

    camel = name.removeprefix("NVML_ERROR_").title().replace("_", "")
    made = type(f"NVMLError_{camel}", (NVMLError,), {"__new__": __new__, "__init__": __init__, "__module__": NAME})
    NVMLError._valClassMapping[code] = made
    return made


for _class in (NVMLError, nvmlFriendlyObject, c_nvmlDevice_t):
    _class.__module__ = NAME
_ERRORS = {made.__name__: made for made in (_subclass(name, code) for name, code in CODES.items())}

#: Functions that give a list where C has two outputs, and an empty list where C has a count of nothing.
_PAIRS = frozenset({"nvmlDeviceGetMigMode", "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization"})


def fill(module: ModuleType, nvml: Nvml) -> None:
    """Set the names of the binding: constants, errors, and one function for each answer."""
    names = module.__dict__
    names.update(CONSTANTS)
    names.update(_ERRORS)
    names.update(NVMLError=NVMLError, nvmlFriendlyObject=nvmlFriendlyObject, c_nvmlDevice_t=c_nvmlDevice_t)
    names["nvmlExceptionClass"] = NVMLError._valClassMapping.__getitem__
    for name in ANSWERS:
        names[name] = _function(name, nvml)

    def __getattr__(name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(
                f"module {NAME!r} has no attribute {name!r} (a stand-in: nvidia-ml-py is not installed)"
            )

        def unanswered(*args: Any, **kwargs: Any) -> Any:
            raise NoAnswerError(nvml.world.id, f"{NAME}.{name}")

        unanswered.__name__ = name
        return unanswered

    names["__getattr__"] = __getattr__


def _function(name: str, nvml: Nvml) -> Callable[..., Any]:
    """One function as nvidia-ml-py has it: outputs are returned, and codes are raised."""
    gives_handle = name.startswith("nvmlDeviceGetHandleBy")
    lists = name.startswith("nvmlDeviceGet") and "RunningProcesses" in name
    taken = ANSWERS[name].__code__.co_argcount - 1

    def function(*args: Any, **kwargs: Any) -> Any:
        # `version`, which some functions take, picks a layout: here all fields are there in any case.
        values = [arg._address if isinstance(arg, c_nvmlDevice_t) else arg for arg in (*args, *kwargs.values())]
        try:
            result = nvml.call(
                name, *(value.decode() if isinstance(value, bytes) else value for value in values[:taken])
            )
        except Refused as refused:
            raise NVMLError(refused.code) from None
        if gives_handle:
            return c_nvmlDevice_t(result)
        if lists:
            return []
        if isinstance(result, dict):
            return nvmlFriendlyObject(result)
        return list(result) if name in _PAIRS else result

    function.__name__ = function.__qualname__ = name
    return function
