"""Keeps C++ from importing torch.distributed.tensor, with sympy and a second of work, at the first faked operation.

At the first __torch_dispatch__ of a process torch asks whether a tensor is a DTensor, and imports that class for good.
A real card's tensors are not dispatched to Python, and import nothing. So the class that C++ keeps is made a stand-in,
which knows a faked tensor at sight and asks the real class, imported then, about anything else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

#: Source: DEFINE_CACHING_PYTHON_IMPORT_GETTER in torch/csrc/autograd/python_variable.cpp, since torch 2.9.
_MODULE, _CLASS = "torch.distributed.tensor", "DTensor"


#: The classes of tensors on faked devices. It grows in a child whose build of torch has kernels of its own: the names
#: of this module stay what they are, by which a process knows itself intact.
_faked: list[type] = []


class _Asks(type):
    """The type of the stand-in: answers `isinstance`, and gives what the real class has."""

    def __instancecheck__(cls, instance: object) -> bool:
        return not issubclass(type(instance), tuple(_faked)) and isinstance(instance, _real())

    def __getattr__(cls, name: str) -> Any:
        return getattr(_real(), name)


def _real() -> type:
    found: type = getattr(import_module(_MODULE), _CLASS)
    return found


class _DTensor(metaclass=_Asks):
    """What C++ takes for DTensor."""


def prepare(torch: ModuleType, faked: type) -> None:
    """Let `faked`, a class of tensors on faked devices, be known; the first time, have C++ keep the stand-in.

    Where C++ has asked before, as a process that runs a command may have done, it keeps what it was told.
    """
    known = bool(_faked)
    _faked.append(faked)
    if known or _MODULE in sys.modules:
        return
    module = ModuleType(_MODULE)
    vars(module)[_CLASS] = _DTensor

    class Asked(faked):  # type: ignore[misc]
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0]

    sys.modules[_MODULE] = module
    try:
        torch.ops.aten.detach.default(torch.Tensor._make_wrapper_subclass(Asked, ()))
    finally:
        del sys.modules[_MODULE]
