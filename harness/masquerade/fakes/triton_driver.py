"""Triton's drivers: the real driver classes run, over utilities and a launcher that are answered from the machine.

`kernel[grid](...)` then compiles for the machine's arch as it would there, checks shared memory, and does not launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from masquerade.fakes import triton_intel, triton_key, triton_tools
from masquerade.fakes.binaries import resources
from masquerade.fakes.hooks import on_import
from masquerade.fakes.triton_properties import SHARED, Properties, unanswered
from masquerade.fakes.world import World


def install(world: World) -> None:
    """Answer for the drivers of a Triton that is imported later. Stock Triton has none for Intel: triton-xpu has."""
    if world.platform not in ("cuda", "rocm", "xpu"):
        return
    triton_key.install()
    triton_tools.install()
    vendors = {
        "nvidia": ("Cuda", _utils(world)),
        "amd": ("HIP", _utils(world)),
        "intel": ("XPU", triton_intel.utils(world)),
    }
    for vendor, (prefix, utils) in vendors.items():

        def answer(module: Any, prefix: str = prefix, utils: type = utils) -> None:
            _answer(vars(module), world, prefix, utils)

        on_import(f"triton.backends.{vendor}.driver", answer)

    def answer_copies(backends: Any) -> None:
        # Before 3.4 Triton executes the drivers' files a second time, past the import system.
        for vendor, backend in getattr(backends, "backends", {}).items():
            namespace = getattr(backend.driver.__init__, "__globals__", {})
            if namespace.get("__name__") == vendor and vendor in vendors:
                _answer(namespace, world, *vendors[vendor])

    on_import("triton.backends", answer_copies)


def ask(platform: str) -> None:
    """Find out now, for all forks of this process, what each would about the compiler of a Triton that is loaded."""
    triton_key.ask()
    if platform == "cuda":
        triton_tools.ask()


def _answer(driver: dict[str, Any], world: World, prefix: str, utils: type) -> None:
    """Put answers into a driver's module."""
    replacements: dict[str, Any] = {f"{prefix}Utils": utils, f"{prefix}Launcher": Launcher}
    if prefix == "XPU":
        replacements["compile_module_from_src"] = triton_intel.modules(world)
    driver.update((name, replacement) for name, replacement in replacements.items() if name in driver)
    driver_class = driver.get(f"{prefix}Driver")
    if driver_class is not None and hasattr(driver_class, "get_benchmarker"):
        driver_class.get_benchmarker = lambda self: untimed
    if "_cuda_driver_is_active" in driver:
        driver["_cuda_driver_is_active"] = lambda: world.platform == "cuda" and world.count() > 0


def untimed(kernel_call: Callable[[], Any], *, quantiles: Sequence[float] = (), **options: Any) -> Any:
    """Stands in for the driver's benchmark: run once, and take as long as any other. There is nothing to time here.

    An autotuned kernel then compiles each of its configurations, drops those that do not fit, and takes the first one.
    """
    kernel_call()
    return [0.0] * len(quantiles) if quantiles else 0.0


class Launcher:
    """Launches nothing: the kernel has been compiled, and its binary belongs to a card that is not here."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src, self.metadata = src, metadata

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        return None


#: What the driver's utilities raise for a device that is not there. Source: triton's backends/*/driver.c; CUDA's was
#: recorded on an H200.
_NO_DEVICE = {
    "cuda": "Triton Error [CUDA]: invalid device ordinal",
    "rocm": "Triton Error [HIP]:  Code: 101, Messsage: invalid device ordinal",
}


def _utils(world: World) -> type:
    """The class of the driver's utilities, a C extension on real machines."""

    class Utils:
        def get_device_properties(self, index: int) -> Properties:
            if index >= len(world.visible()):
                raise RuntimeError(_NO_DEVICE[world.platform])
            return Properties(world.visible()[index], SHARED)

        def load_binary(self, name: str, binary: bytes, shared: int, index: int) -> tuple[int, int, int, int, int]:
            """(module, function, registers, spilled words, most threads a block); -1 where the binary does not tell."""
            told = resources(binary) or (-1, -1)
            return 0, 0, *told, world.visible()[index].known("max_threads_per_block", 1024)

        def unload_module(self, handle: Any) -> None:
            return None

        def get_device_capability(self, index: int) -> tuple[int, int]:
            major, minor = world.visible()[index].get("capability", "triton get_device_capability")
            return major, minor

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, index: int) -> None:
            return None

        def get_default_stream(self, index: int) -> int:
            return 0

        def __getattr__(self, name: str) -> Any:
            return unanswered(world, name)

    return Utils
