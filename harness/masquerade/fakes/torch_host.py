"""What C++ decides on the host about a device, before any operator is dispatched: generators, pinned memory, autograd.

Each has its answer or its refusal inside one C++ function of torch, with nothing below it that Python reaches, so these
are the names of torch itself.
"""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

from masquerade.fakes import torch_hooks
from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.world import NoAnswerError, World

#: What autograd's engine says where it looks for a real device's streams and finds none.
_NO_ENGINE = ("accelerator device", "hasPrimaryContext", "CUDA error", "NVIDIA driver", "not linked with support")


#: Kind (cuda or xpu) -> its torch.Generator, made once in a server; and the runtime that answers in this process.
_generators: dict[str, Any] = {}
_running: dict[str, Runtime] = {}


def prepare(torch: ModuleType, kind: str) -> None:
    """Make what every disguise of this kind needs."""
    if hasattr(torch, kind):
        _generators[kind] = generator_type(torch, kind)


def install(torch: Any, runtime: Runtime) -> None:
    """Answer for the machine's device type."""
    kind = runtime.kind
    if kind not in _generators:
        prepare(torch, kind)
    _running[kind] = runtime
    torch.Generator = _generators[kind]
    _pin(torch, runtime)
    _explain_backward(torch, runtime.world)


def generator_type(torch: ModuleType, kind: str) -> Any:
    """torch.Generator, with generators of the faked device: they draw the CPU's numbers."""
    core, module = torch._C.Generator, getattr(torch, kind)

    class AnyGenerator(type(core)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, core)

    class Generator(core, metaclass=AnyGenerator):  # type: ignore[misc, valid-type]
        __doc__ = core.__doc__

        def __new__(cls, device: Any = "cpu") -> Any:
            where = torch.device(device)
            if where.type != kind:
                return core(device)
            runtime = _running[kind]
            if runtime.world.platform == "cuda":
                # C++ asks the runtime for the device and torch takes no note; a number that was not given stays out.
                runtime.work()
                return cls._of(where)
            module._lazy_init()
            return cls._of(torch.device(kind, module.current_device()) if where.index is None else where)

        @classmethod
        def _of(cls, where: Any) -> Any:
            self = core.__new__(cls, "cpu")
            self._where = where
            return self

        @property
        def device(self) -> Any:
            return self._where

        def get_state(self) -> Any:
            return _philox(torch, self, core) if kind == "cuda" else core.get_state(self)

        def set_state(self, state: Any) -> Any:
            return _set_philox(torch, self, core, state) if kind == "cuda" else core.set_state(self, state)

        def __reduce__(self) -> Any:
            return _restored, (str(self._where), self.initial_seed(), self.get_state())

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    return Generator


def default_generators(torch: ModuleType, kind: str, count: int) -> tuple[Any, ...]:
    """The generators of `count` devices, which a successful initialization makes."""
    return tuple(torch.Generator._of(torch.device(kind, index)) for index in range(count))


#: Seed -> the states of the CPU's generator that a generator of that seed was asked for; their places are offsets.
_states: dict[int, list[bytes]] = {}


def _philox(torch: Any, generator: Any, core: Any) -> Any:
    """The state of a CUDA generator: seed and offset, 8 bytes each (ATen/cuda/CUDAGeneratorImpl.cpp).

    Here the numbers are the CPU generator's, whose state does not fit: the offset says which of those seen it is.
    """
    seed, state = generator.initial_seed(), bytes(core.get_state(generator).numpy())
    seen = _states.setdefault(seed, [])
    if not seen:
        seen.append(bytes(core("cpu").manual_seed(seed).get_state().numpy()))
    if state not in seen:
        seen.append(state)
    # C++ counts in fours.
    return torch.frombuffer(bytearray(struct.pack("<Qq", seed, 4 * seen.index(state))), dtype=torch.uint8)


def _set_philox(torch: Any, generator: Any, core: Any, state: Any) -> Any:
    """Take a state that _philox gave. One of a real card has an offset that is not known here: its seed is taken."""
    data = bytes(state.cpu().numpy())
    if len(data) != 16:
        raise RuntimeError("RNG state is wrong size")
    seed, offset = struct.unpack("<Qq", data)
    generator.manual_seed(seed)
    seen = _states.get(seed, [])
    if 0 < offset // 4 < len(seen):
        core.set_state(generator, torch.frombuffer(bytearray(seen[offset // 4]), dtype=torch.uint8))
    return generator


def _restored(device: str, seed: int, state: Any) -> Any:
    import torch

    made = torch.Generator(torch.device(device))
    made.manual_seed(seed)
    made.set_state(state)
    return made


def _pin(torch: Any, runtime: Runtime) -> None:
    """Pinned memory is the driver's, so pinning starts it. The mark is the storage's: views share it."""
    module = getattr(torch, runtime.kind)

    def pin_memory(self: Any, device: Any = None) -> Any:
        if self.device.type != "cpu":
            raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
        if runtime.world.platform == "cuda":
            runtime.require()  # by C++ alone: torch.cuda is not initialized
            runtime.work()
        else:
            module._lazy_init()
        if is_pinned(self):
            return self
        made = self.clone()
        made.untyped_storage()._masquerade_pinned = True
        return made

    def is_pinned(self: Any, device: Any = None) -> bool:
        if self.device.type != "cpu" or self.layout is not torch.strided:
            return False
        storage = self.untyped_storage()
        return hasattr(storage, "_masquerade_pinned") or torch_hooks.holds_pinned(storage)

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, is_pinned


def _explain_backward(torch: ModuleType, world: World) -> None:
    """Autograd's engine wants the device's own threads and streams, and says something else where there are none."""
    run = torch.autograd.graph._engine_run_backward

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            if not any(text in str(error) for text in _NO_ENGINE):
                raise
            why = "autograd's engine works on a device's own streams only"
            raise NoAnswerError(world.id, "torch.autograd backward", why) from None

    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = _engine_run_backward
