"""The faked driver below torch._C: which devices are visible, which is current, and whether a fork can still use it.

torch takes note of a started driver in its Python roads alone. Where C++ starts it by itself, a forked child learns of
it from the runtime's own error: so recorded on an H200 (fixtures/recordings).
"""

from __future__ import annotations

import os
import re
import warnings
from types import ModuleType
from typing import Any

from masquerade.fakes import lives, torch_errors, visible
from masquerade.fakes.torch_properties import cuda_properties, xpu_properties
from masquerade.fakes.world import Device, World

#: What torch says of a count that failed. Source: c10/cuda/CUDAFunctions.cpp, device_count.
_MISCOUNT = (
    "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error {code}: {text}"
)


class Runtime:
    """The faked driver of one process. `kind` is cuda, also for HIP, or xpu."""

    def __init__(self, world: World, torch: ModuleType, kind: str) -> None:
        self.world, self.torch, self.kind = world, torch, kind
        #: The platform as error messages name it.
        self.word = {"cuda": "CUDA", "rocm": "HIP"}.get(world.platform, "XPU")
        self.current = 0
        self._devices: list[Device] | None = None
        #: The process that started the driver, and the one in which torch took note of that; 0 for none.
        self._started_in = self._noted_in = 0
        self._twice = False
        lives.follow(self._moved)

    def _moved(self, old: int, new: int) -> None:
        self._started_in = new if self._started_in == old else self._started_in
        self._noted_in = new if self._noted_in == old else self._noted_in

    @property
    def started(self) -> bool:
        """Whether the driver was started, in this process or before a fork."""
        return self._started_in != 0

    def start(self) -> list[Device]:
        """Start the driver: it reads the visible-devices variables now and never again, and harms later forks."""
        if self._devices is None:
            self._devices = self.world.visible()
            self._twice = self.world.platform == "cuda" and visible.names_one_twice(self.world.devices, os.environ)
            self._started_in = os.getpid()
        if self.world.platform != "cuda":  # where torch takes note was recorded on CUDA alone
            self.note()
        return self._devices

    def note(self) -> None:
        """Let torch know of the driver, as Python does before it counts devices or initializes."""
        self._noted_in = self._noted_in or os.getpid()

    def in_bad_fork(self) -> bool:
        """What torch thinks of this process."""
        return self._noted_in not in (0, os.getpid())

    def _left_behind(self) -> bool:
        """Whether the driver was started before a fork, so that CUDA's runtime fails here.

        Where it found no device it was not started: a fork asks again, and is told the same (recorded on an H200).
        """
        return self.world.platform == "cuda" and self._started_in not in (0, os.getpid()) and bool(self._devices)

    def enter(self) -> list[Device]:
        """Start the driver as C++ does below Python. Raises the runtime's own error where no device can be used."""
        code = self._error_code()
        if code:
            raise torch_errors.error(self.torch, self.word, code)
        return self.start()

    def work(self) -> None:
        """As enter(), where C++ goes on to the current stream: torch._C is asked for it, where a watcher sees that."""
        self.enter()
        getattr(self.torch._C, f"_{self.kind}_getCurrentRawStream")(self.current)

    def _error_code(self) -> int:
        """What CUDA's runtime returns where it can use no device; 0 where it can, and for other platforms."""
        if self.world.platform != "cuda":
            return 0
        if self.fault("kind") in ("driver-missing", "driver-too-old"):
            return torch_errors.INSUFFICIENT_DRIVER
        told = re.search(r"Error (\d+):", str((self.fault("init_error") or {}).get("message", "")))
        if told:
            return int(told[1])
        if self._left_behind():
            return torch_errors.INITIALIZATION
        if self._counted():
            return 0
        return torch_errors.INVALID_DEVICE if self._twice else torch_errors.NO_DEVICE

    def fault(self, key: str) -> Any:
        return (self.world.fault or {}).get(key)

    def _counted(self) -> int:
        devices = self.start()
        counted = self.fault("count")
        return len(devices) if counted is None else int(counted)

    def count(self) -> int:
        """The count that Python asks for."""
        self.note()
        counted = self._counted()
        if self.fault("count_warning"):
            warnings.warn(self.fault("count_warning"), UserWarning, stacklevel=3)
        elif self._twice and not self.fault("init_error"):
            self._twice = False  # torch counts once
            code = torch_errors.INVALID_DEVICE
            said = _MISCOUNT.format(code=code, text=torch_errors.CODES[code][1])
            warnings.warn(said, UserWarning, stacklevel=3)
        return counted

    def device(self, index: int | None = None) -> Device:
        """The visible device `index`, or the current one. Raises what the real runtime raises for a wrong index."""
        devices = self.start()
        index = self.current if index is None or index < 0 else index
        if index >= len(devices):
            if self.kind == "xpu":
                available = f"only {len(devices)} devices are available."
                raise RuntimeError(f"device index out of range. Got {index}, but {available}")
            raise torch_errors.error(self.torch, self.word, torch_errors.INVALID_DEVICE)
        return devices[index]

    def require(self) -> None:
        """Start the driver. Raises what torch's own check raises where no device can be used."""
        error = self.fault("init_error")
        self.start()
        if error:
            raise {"RuntimeError": RuntimeError, "AssertionError": AssertionError}.get(error["type"], RuntimeError)(
                error["message"]
            )
        if self._left_behind():
            raise torch_errors.error(self.torch, self.word, torch_errors.INITIALIZATION)
        if self._counted() == 0:
            word = {"cuda": "CUDA GPUs", "rocm": "HIP GPUs"}.get(self.world.platform, "XPU devices")
            raise RuntimeError(f"No {word} are available")

    def open(self) -> None:
        """Initialize, as torch.cuda.init() does. Raises as require()."""
        self.note()
        self.require()

    def properties(self, index: int) -> Any:
        if self.fault("properties_error"):
            raise RuntimeError(self.fault("properties_error"))
        make = xpu_properties if self.kind == "xpu" else cuda_properties
        return make(self.device(index))

    def set_device(self, index: int) -> None:
        if index >= 0:
            self.device(index)
            self.current = index

    def exchange_device(self, index: int) -> int:
        before = self.current
        if index < 0:
            return -1
        self.set_device(index)
        return before

    def stream_triple(self, index: int = -1) -> tuple[int, int, int]:
        """(stream id, device index, device type) of the default stream. Device types: c10/core/DeviceType.h."""
        return (0, self.current if index is None or index < 0 else index, 12 if self.kind == "xpu" else 1)
