"""Intel's driver of Triton, which is in the package triton-xpu and not in stock Triton: real compiler, no launch.

The driver builds C++ against SYCL and Level Zero when it is first asked anything; what these modules would tell comes
from the machine instead. Source: backends/intel/driver.py and compiler.py of triton-xpu 3.3.0b1.
"""

from __future__ import annotations

from typing import Any

from masquerade.fakes.triton_properties import INTEL, INTEL_FORM, Properties, unanswered
from masquerade.fakes.world import NoAnswerError, World

#: The arch names that the compiler's arch parser knows; for another it says "". Source: backends/intel/arch_parser.c.
_PARSED = ("pvc", "bmg", "lnl", "dg2", "mtl")


class ArchParser:
    """The name of an arch by SYCL's number for it."""

    def __init__(self, world: World) -> None:
        self._names = {device.known("architecture"): device.known("arch", "") for device in world.devices}

    def parse_device_arch(self, architecture: int) -> str:
        name = self._names.get(architecture, "")
        return name if name in _PARSED else ""


def modules(world: World) -> Any:
    """Stands in for `compile_module_from_src(source, name)`, which builds a native module on the machine."""

    def compile_module_from_src(src: str, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "arch_utils":
            return ArchParser(world)
        raise NoAnswerError(world.id, f"triton.backends.intel.driver.compile_module_from_src({name!r})")

    return compile_module_from_src


def utils(world: World) -> type:
    """The class of the driver's utilities."""

    class XPUUtils:
        def __init__(self) -> None:
            self.device_count = (world.count(),)
            self.current_device = 0 if world.count() else -1

        def get_current_device(self) -> int:
            return self.current_device

        def get_device_properties(self, index: int) -> Properties:
            return Properties(world.visible()[index], INTEL, INTEL_FORM)

        def load_binary(self, name: str, binary: bytes, shared: int, *rest: Any) -> tuple[int, int, int, int]:
            """(module, function, registers, spilled bytes); -1: only the card's own compiler, in the driver, knows."""
            return 0, 0, -1, -1

        def get_sycl_queue(self) -> int:
            return 0

        def wait(self) -> None:
            return None

        def __getattr__(self, name: str) -> Any:
            return unanswered(world, name)

    return XPUUtils
