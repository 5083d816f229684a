"""The ways that a kernel can run: in plain torch, in Triton's interpreter (logic only), and on this host's device."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

from blockscale.kernels import dispatch
from blockscale.kernels import triton as kernels
from blockscale.platforms import current_platform

#: `device` is any accelerator: the one that is here, or a skip where none is.
WAYS = {
    "torch": pytest.param("torch", marks=pytest.mark.cpu),
    "interpreter": pytest.param("interpreter"),
    "device": pytest.param("device", marks=(pytest.mark.cuda, pytest.mark.rocm, pytest.mark.xpu)),
    "device, not AMD's": pytest.param("device", marks=(pytest.mark.cuda, pytest.mark.xpu)),
}
EVERY_WAY = ("torch", "interpreter", "device")


def by(*names: str) -> pytest.MarkDecorator:
    """Run a test by these ways alone."""
    return pytest.mark.parametrize("path", [WAYS[name] for name in names], indirect=True)


@dataclass(frozen=True)
class Way:
    """How a test runs, and where its operands must be."""

    name: str
    device: torch.device

    @property
    def on_device(self) -> bool:
        return self.name == "device"

    @property
    def fp8(self) -> torch.dtype:
        """The e4m3 flavour of this arch: the only one that its kernels take."""
        fnuz = self.on_device and dispatch.arch_of(torch.empty(0, device=self.device)).fp8_is_fnuz
        return torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn

    def put(self, given: Any) -> Any:
        """A tensor, or a tuple or dict of some, moved to where the kernel runs."""
        if isinstance(given, torch.Tensor):
            return given.to(self.device)
        if isinstance(given, dict):
            return {name: self.put(value) for name, value in given.items()}
        return tuple(map(self.put, given)) if isinstance(given, tuple) else given

    def exact(self, given: Any) -> Any:
        """As `put`, where answers are made in float64: the device, but for Intel's, of which not all have it."""
        return self.put(given) if self.device.type == "cuda" else Way("torch", torch.device("cpu")).put(given)


def accelerator() -> torch.device:
    """The current device of the hardware that a mark found. Fails where torch is built for something else."""
    if current_platform.is_cpu():
        pytest.fail(f"this host has an accelerator, but torch {torch.__version__} can use none", pytrace=False)
    device = torch.get_device_module(current_platform.device_type)
    return torch.device(current_platform.device_type, device.current_device())


def described(device: torch.device) -> str:
    """A device and the versions that it runs with, for a report that is read elsewhere."""
    name = torch.get_device_module(device.type).get_device_name(device)
    return f"{name} ({current_platform.device_arch(device)}), {versions()}"


def versions() -> str:
    triton = dispatch.triton_version()
    return f"torch {torch.__version__}, Triton {'.'.join(map(str, triton)) if triton else 'is not installed'}"


def why_not_interpreter() -> str:
    """Why Triton's interpreter cannot run the kernels here; empty if it can."""
    for module, name in (("triton", "Triton"), ("numpy", "NumPy")):
        if importlib.util.find_spec(module) is None:
            return f"{name} is not installed, and Triton's interpreter is asked for"
    triton, numpy = dispatch.triton_version(), importlib.metadata.version("numpy")
    if triton < (3, 7, 0) and tuple(map(int, numpy.split(".")[:2])) >= (2, 4):
        found = ".".join(map(str, triton))
        return (
            f"the interpreter of Triton {found} makes loop bounds of arrays, which NumPy {numpy} refuses: "
            f"it takes Triton 3.7.0 or newer, or NumPy before 2.4"
        )
    return ""


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Have Triton's interpreter run the kernels.

    Triton decides when a function is decorated, and a device's tests need compiled ones in the same process: so each
    jitted function, Triton's own among them, is replaced in its module, and put back.
    """
    places = _jitted()
    for module, name, _, interpreted_function in places:
        setattr(module, name, interpreted_function)
    try:
        yield
    finally:
        for module, name, jitted, _ in places:
            setattr(module, name, jitted)


@cache
def _jitted() -> list[tuple[Any, str, Any, Any]]:
    """Module, name, jitted function and interpreted one, of all that a kernel may call."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for module in pkgutil.iter_modules(kernels.__path__, kernels.__name__ + "."):
        importlib.import_module(module.name)
    twins: dict[int, Any] = {}
    places = []
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith((kernels.__name__, "triton.language")):
            continue
        for name, value in list(vars(module).items()):
            if type(value) is JITFunction:
                twin = twins.setdefault(id(value), InterpretedFunction(value.fn))
                places.append((module, name, value, twin))
    return places
