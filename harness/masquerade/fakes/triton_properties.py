"""What the utilities of Triton's drivers answer: device properties, each read from the machine when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from masquerade.fakes.world import Device, NoAnswerError, World

#: Name in Triton -> key of a machine's device. Source: get_device_properties in triton's backends/*/driver.c.
SHARED = {
    "max_shared_mem": "shared_memory_per_block_optin",
    "max_num_regs": "regs_per_multiprocessor",
    "multiprocessor_count": "multi_processor_count",
    "warpSize": "warp_size",
    "sm_clock_rate": "clock_rate",
    "mem_clock_rate": "memory_clock_rate",
    "mem_bus_width": "memory_bus_width",
    # HIP's alone.
    "arch": "gcn_arch_name",
}

#: Source: backends/intel/driver.c, which asks Level Zero: its subslices are the multiprocessors.
INTEL = {
    "max_shared_mem": "local_mem_size",
    "multiprocessor_count": "gpu_subslice_count",
    "sm_clock_rate": "clock_rate",
    "mem_clock_rate": "memory_clock_rate",
    "mem_bus_width": "memory_bus_width",
    "max_work_group_size": "max_work_group_size",
    "sub_group_sizes": "sub_group_sizes",
}

#: Level Zero's clock rates are in MHz (ze_device_properties_t), those of a machine in kHz; its lists are tuples here.
INTEL_FORM: Mapping[str, Callable[[Any], Any]] = {
    "sm_clock_rate": lambda khz: khz // 1000,
    "mem_clock_rate": lambda khz: khz // 1000,
    "sub_group_sizes": tuple,
}


class Properties(dict[str, Any]):
    """What is known of a device. A value that the machine does not know raises UnknownValueError if it is read."""

    def __init__(
        self, device: Device, keys: Mapping[str, str], form: Mapping[str, Callable[[Any], Any]] | None = None
    ) -> None:
        known = {name: device.known(key) for name, key in keys.items()}
        form = form or {}
        super().__init__(
            {name: form.get(name, lambda x: x)(value) for name, value in known.items() if value not in (None, "")}
        )
        self._device, self._keys = device, keys

    def __missing__(self, name: str) -> Any:
        if name not in self._keys:
            raise KeyError(name)
        self._device.get(self._keys[name], f"triton get_device_properties()[{name!r}]")
        raise KeyError(name)


def unanswered(world: World, name: str) -> Callable[..., Any]:
    """What stands for a function of a driver's utils that no fake answers: calling it raises NoAnswerError."""
    if name.startswith("__"):
        raise AttributeError(name)

    def no_answer(*args: Any, **kwargs: Any) -> Any:
        raise NoAnswerError(world.id, f"triton driver utils.{name}")

    return no_answer
