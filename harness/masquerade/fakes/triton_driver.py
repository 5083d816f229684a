"""Triton's drivers: the real driver classes run, over utilities and a launcher that are answered from the machine.

`kernel[grid](...)` then compiles for the machine's arch as it would there, checks shared memory, and does not launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from masquerade.fakes import triton_key
from masquerade.fakes.binaries import resources
from masquerade.fakes.hooks import on_import
from masquerade.fakes.world import NoAnswerError, UnknownValueError, World


class Properties(dict[str, Any]):
    """Device properties as the driver's utilities give them; a value that the machine does not know raises if read."""

    def __init__(self, world: World, index: int, values: dict[str, Any]) -> None:
        super().__init__({key: value for key, value in values.items() if value is not None})
        self._where = world.id, index

    def __missing__(self, key: str) -> Any:
        machine, index = self._where
        raise UnknownValueError(machine, f"devices.{index}.{key}", f"triton get_device_properties()[{key!r}]")


def install(world: World) -> None:
    """Answer for the NVIDIA and AMD drivers of a Triton that is imported later. Stock Triton has no Intel driver."""
    if world.platform not in ("cuda", "rocm"):
        return
    triton_key.install()
    on_import("triton.backends.nvidia.driver", lambda module: _answer(module, world, "Cuda"))
    on_import("triton.backends.amd.driver", lambda module: _answer(module, world, "HIP"))


def _answer(module: Any, world: World, prefix: str) -> None:
    for name, replacement in ((f"{prefix}Utils", _utils(world)), (f"{prefix}Launcher", Launcher)):
        if hasattr(module, name):
            setattr(module, name, replacement)
    driver = getattr(module, f"{prefix}Driver", None)
    if driver is not None and hasattr(driver, "get_benchmarker"):
        driver.get_benchmarker = lambda self: untimed
    if hasattr(module, "_cuda_driver_is_active"):
        module._cuda_driver_is_active = lambda: world.platform == "cuda" and world.count() > 0


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


def _utils(world: World) -> type:
    """The class of the driver's utilities, a C extension on real machines."""

    class Utils:
        def get_device_properties(self, index: int) -> Properties:
            device = world.visible()[index]
            return Properties(
                world,
                index,
                {
                    "max_shared_mem": device.known("shared_memory_per_block_optin"),
                    "max_num_regs": device.known("regs_per_multiprocessor"),
                    "multiprocessor_count": device.known("multi_processor_count"),
                    "warpSize": device.known("warp_size"),
                    "sm_clock_rate": device.known("clock_rate"),
                    "mem_clock_rate": device.known("memory_clock_rate"),
                    "mem_bus_width": device.known("memory_bus_width"),
                    # HIP's alone.
                    "arch": device.known("gcn_arch_name") or None,
                },
            )

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
            if name.startswith("__"):
                raise AttributeError(name)

            def no_answer(*args: Any, **kwargs: Any) -> Any:
                raise NoAnswerError(world.id, f"triton driver utils.{name}")

            return no_answer

    return Utils
