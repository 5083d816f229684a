"""Tensors that say they are on the faked device: their data lies in a CPU tensor inside, and every operation runs on that.

Kernels for the CUDA and XPU dispatch keys, which a CPU build leaves empty, catch every factory of every thread; a mode would
hold for one thread only. What comes out has the right shape, dtype and device; its numbers are the CPU's.
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from masquerade.fakes.world import World

_installed: dict[str, Any] = {}


def generators(torch: ModuleType, kind: str, count: int) -> tuple[Any, ...]:
    """The default generators of `count` devices: CPU generators, since no numbers are drawn on a faked device."""
    return tuple(torch.Generator() for _ in range(count))


def install(torch: ModuleType, world: World, kind: str) -> None:
    """Register the factories for `kind` (cuda or xpu) once in this process."""
    if kind in _installed:
        return
    core, tree = torch._C, torch.utils._pytree
    module = getattr(torch, kind)

    class DeviceTensor(torch.Tensor):  # type: ignore[name-defined, misc]
        """A tensor on a faked device."""

        _inner: Any

        @staticmethod
        def __new__(cls: Any, inner: Any, device: Any) -> Any:
            self = torch.Tensor._make_wrapper_subclass(
                cls,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                layout=inner.layout,
                device=device,
                requires_grad=inner.requires_grad,
            )
            self._inner = inner
            return self

        def __repr__(self, *, tensor_contents: Any = None) -> str:
            device, dtype = self.device, str(self.dtype).removeprefix("torch.")
            return f"tensor(..., device='{device}', size={tuple(self.shape)}, dtype=torch.{dtype})"

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    def current(device: Any) -> Any:
        return torch.device(kind, module.current_device() if device.index is None else device.index)

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        """Run `func` on the tensors inside and give its results the device that was asked for or that its inputs have."""
        outer: dict[int, Any] = {}
        found: list[Any] = []

        def unwrap(value: Any) -> Any:
            if isinstance(value, DeviceTensor):
                outer[id(value._inner)] = value
                found.append(value.device)
                return value._inner
            if isinstance(value, torch.device) and value.type == kind:
                return torch.device("cpu")
            return value

        asked = kwargs.get("device")
        inner_args, inner_kwargs = tree.tree_map(unwrap, (args, kwargs))
        if inner_kwargs.get("pin_memory"):
            inner_kwargs = {**inner_kwargs, "pin_memory": False}
        out = func(*inner_args, **inner_kwargs)
        target = asked if asked is not None else (found[0] if found else None)

        def wrap(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or isinstance(value, DeviceTensor):
                return value
            if id(value) in outer:
                return outer[id(value)]
            if target is None or torch.device(target).type != kind:
                return value
            return DeviceTensor(value, current(torch.device(target)))

        return tree.tree_map(wrap, out)

    def factory(name: str) -> Any:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")

        def make(*args: Any, **kwargs: Any) -> Any:
            kwargs["device"] = current(torch.device(kwargs.get("device") or kind))
            return run(op, args, kwargs)

        return make

    key = "CUDA" if kind == "cuda" else "XPU"
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # A build for the platform has kernels under these names already; overriding them is the point.
        warnings.simplefilter("ignore")
        for name in ("empty.memory_format", "empty_strided"):
            try:
                library.impl(name, factory(name), key, allow_override=True)
            except TypeError:  # torch before 2.8 has no allow_override
                library.impl(name, factory(name), key)
    _installed[kind] = library

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        # The method is C++ that looks for linked CUDA code before anything is dispatched; .to() is dispatched.
        index = device if isinstance(device, int) else None
        where = torch.device(kind, index) if device is None or index is not None else torch.device(device)
        return self.to(where, non_blocking=non_blocking, memory_format=memory_format or torch.preserve_format)

    setattr(torch.Tensor, kind, cuda)
    torch.Tensor.pin_memory = lambda self, device=None: self
    torch.Tensor.is_pinned = lambda self, device=None: False
    del core
