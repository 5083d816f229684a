"""libnvidia-ml as ctypes finds it: real bindings, and code that calls the library itself, run over these functions.

torch, nvidia-ml-py, vLLM's copy of it and others open `libnvidia-ml.so.1` with ctypes.CDLL and pass pointers to fill.
The class is patched and not the name, which many hold already.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from .nvml import ANSWERS, LIBRARY_NOT_FOUND, Nvml, Refused, start_code
from .world import NoAnswerError, World

INSUFFICIENT_SIZE = 7


def install(world: World, nvml: Nvml) -> None:
    """Answer for libnvidia-ml where the machine has it, and deny it where the machine has none."""
    load = ctypes.CDLL.__init__
    absent = start_code(world) == LIBRARY_NOT_FOUND

    def __init__(
        self: Any, name: Any, mode: int = ctypes.DEFAULT_MODE, handle: Any = None, *rest: Any, **named: Any
    ) -> None:
        library = _base_name(name) if handle is None else ""
        if not library.startswith("libnvidia-ml.so"):
            load(self, name, mode, handle, *rest, **named)
        elif absent:
            # No event: who looks for NVML to learn that this is no CUDA machine has loaded nothing.
            raise OSError(f"{library}: cannot open shared object file: No such file or directory")
        else:
            self._name, self._handle = name, id(nvml)
            self._FuncPtr = lambda pair: _function(nvml, pair[0])

    ctypes.CDLL.__init__ = __init__  # type: ignore[method-assign]


def _base_name(name: Any) -> str:
    try:
        return os.path.basename(os.fsdecode(name))
    except TypeError:  # None is the program itself
        return ""


def _function(nvml: Nvml, name: str) -> Callable[..., Any]:
    """One function of the library: fills what its pointers point at and returns NVML's code."""

    def function(*arguments: Any) -> Any:
        answer = ANSWERS.get(name)
        if answer is None:
            raise NoAnswerError(nvml.world.id, f"pynvml.{name}")
        taken = answer.__code__.co_argcount - 1
        inputs = [_read(argument) for argument in arguments[:taken]]
        if name == "nvmlErrorString":
            return str(nvml.call(name, *inputs)).encode()
        try:
            result = nvml.call(name, *inputs)
        except Refused as refused:
            return refused.code
        if result is None:
            return 0
        outputs = result if isinstance(result, tuple) else (result,)
        filled = [_write(where, value) for where, value in zip(arguments[taken:], outputs, strict=False)]
        return 0 if all(filled) else INSUFFICIENT_SIZE

    if not name.startswith("nvml"):
        raise AttributeError(f"libnvidia-ml.so.1: undefined symbol: {name}")
    function.__name__ = name
    return function


def _read(argument: Any) -> Any:
    """An input as a Python value: numbers, texts, and handles, which are pointers, as their addresses."""
    if isinstance(argument, bytes):
        return argument.decode()
    if isinstance(argument, ctypes._Pointer):
        return ctypes.cast(argument, ctypes.c_void_p).value or 0
    value = getattr(argument, "value", argument)
    return value.decode() if isinstance(value, bytes) else value


def _write(where: Any, value: Any) -> bool:
    """Store an output where a pointer, byref() or buffer says. False where a text does not fit."""
    target = getattr(where, "_obj", None)
    if target is None:
        target = where.contents if isinstance(where, ctypes._Pointer) else where
    if isinstance(value, dict):
        fields = {field[0] for field in target._fields_}
        for name, item in value.items():
            if name in fields:
                setattr(target, name, item.encode() if isinstance(item, str) else item)
    elif isinstance(value, str):
        text = value.encode()
        if len(text) >= ctypes.sizeof(target):
            return False
        target.value = text
    elif isinstance(target, ctypes._Pointer):
        ctypes.c_void_p.from_buffer(target).value = value
    else:
        target.value = value
    return True
