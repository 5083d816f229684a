"""What C++ decides on the host about a device, before any operator is dispatched: generators, pinned memory, autograd.

Each has its answer or its refusal inside one C++ function of torch, with nothing below it that Python reaches, so these
are the names of torch itself.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from masquerade.fakes import torch_hooks
from masquerade.fakes.world import NoAnswerError, World

#: What autograd's engine says where it looks for a real device's streams and finds none.
_NO_ENGINE = ("accelerator device", "hasPrimaryContext", "CUDA error", "NVIDIA driver", "not linked with support")


#: Kind (cuda or xpu) -> its torch.Generator, made once in a server.
_generators: dict[str, Any] = {}


def prepare(torch: ModuleType, kind: str) -> None:
    """Make what every disguise of this kind needs."""
    if hasattr(torch, kind):
        _generators[kind] = generator_type(torch, kind)


def install(torch: Any, world: World, kind: str) -> None:
    """Answer for the machine's device type, `kind` (cuda or xpu)."""
    if kind not in _generators:
        prepare(torch, kind)
    torch.Generator = _generators[kind]
    _pin(torch, getattr(torch, kind))
    _explain_backward(torch, world)


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
            module._lazy_init()
            return cls._of(module.current_device() if where.index is None else where.index)

        @classmethod
        def _of(cls, index: int) -> Any:
            self = core.__new__(cls, "cpu")
            self._where = torch.device(kind, index)
            return self

        @property
        def device(self) -> Any:
            return self._where

        def __reduce__(self) -> Any:
            return _restored, (kind, self._where.index, self.initial_seed(), self.get_state())

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    return Generator


def default_generators(torch: ModuleType, kind: str, count: int) -> tuple[Any, ...]:
    """The generators of `count` devices, which a successful initialization makes."""
    return tuple(torch.Generator._of(index) for index in range(count))


def _restored(kind: str, index: int, seed: int, state: Any) -> Any:
    import torch

    made = torch.Generator(torch.device(kind, index))
    made.manual_seed(seed)
    made.set_state(state)
    return made


def _pin(torch: ModuleType, module: ModuleType) -> None:
    """Pinned memory is the driver's, so pinning opens the device. The mark is the storage's: views share it."""

    def pin_memory(self: Any, device: Any = None) -> Any:
        if self.device.type != "cpu":
            raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
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
