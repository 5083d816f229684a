"""Tensors that say they are on the faked device: their data lies in a CPU tensor inside, and operations run on that.

Kernels for the CUDA and XPU dispatch keys, which a CPU build leaves empty, catch every factory of every thread; a mode
would hold for one thread only. What comes out has the right shape, dtype and device; its numbers are the CPU's.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any

from masquerade.fakes import torch_dispatch, torch_hooks, torch_refusals
from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.world import NoAnswerError, World

#: Operators that make a tensor out of no tensor, and those that resize their output: a tensor's size outside is fixed.
FACTORIES = (
    "empty.memory_format",
    "empty_strided",
    "arange",
    "arange.start",
    "arange.start_step",
    "linspace",
    "logspace",
    "eye",
    "eye.m",
    "randperm",
    "randperm.generator",
    "tril_indices",
    "triu_indices",
    "range",
    "range.step",
    "scalar_tensor",
    # It would hand the device's own kernel a tensor without memory, which ends the process on a CUDA build.
    "kaiser_window",
    "kaiser_window.periodic",
    "kaiser_window.beta",
)

#: Operators that C++ would take apart by asking for a kernel table of the device type: here they are run whole.
WHOLE = ("scaled_dot_product_attention",)

#: Kind (cuda or xpu) -> the kernels' libraries, alive as long as they are.
_registered: dict[str, Any] = {}

#: Kind -> the machine and its runtime, where this process wears one that has the platform.
_worn: dict[str, tuple[World, Runtime]] = {}


def prepare(torch: ModuleType, kind: str) -> None:
    """Register the kernels once in a server, where the build has none of its own that a real machine would want."""
    if hasattr(torch, kind) and not torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty_strided", kind.upper()):
        _register(torch, kind)


def wear(world: World, kind: str, runtime: Runtime) -> None:
    """Let the kernels answer for this machine, whose platform is of `kind`."""
    _worn[kind] = world, runtime


def install(torch: ModuleType, kind: str) -> None:
    """Have the kernels of `kind`, whatever the build; what the opened device of a worn machine needs."""
    if kind not in _registered:
        _register(torch, kind)
    # torch.tensor(..., device=) then moves a finished CPU tensor instead of filling one on the device below Python.
    torch._C._set_only_lift_cpu_tensors(True)


def _register(torch: ModuleType, kind: str) -> None:
    tree = torch.utils._pytree

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

        def tolist(self) -> Any:
            return self._inner.tolist()

        def numpy(self, *, force: bool = False) -> Any:
            if force:
                return self._inner.numpy(force=True)
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                "memory first."
            )

        def __tensor_flatten__(self) -> tuple[list[str], Any]:
            # With these two a module's .to() exchanges its parameters whole instead of their insides.
            return ["_inner"], self.device

        @staticmethod
        def __tensor_unflatten__(inner: Any, device: Any, outer_size: Any, outer_stride: Any) -> Any:
            return DeviceTensor(inner["_inner"], device)

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    torch_dispatch.prepare(torch, DeviceTensor)

    def current(device: Any) -> Any:
        module = getattr(torch, kind)
        if kind not in _worn:
            _refuse(module, kind)
        # Where the road was C++ alone nothing has opened the device; and a fork makes C++ forget that it has called it.
        torch_hooks.begin(module)
        # The runtime's own state: what torch.cuda.current_device() says would count as a call of the subject's.
        runtime = _worn[kind][1]
        index = device.index if device.index is not None else runtime.current
        runtime.device(index)
        return torch.device(kind, index)

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        """Run `func` on the tensors inside; its results get the device that was asked for or that its inputs have."""
        outer: dict[int, Any] = {}
        found: list[Any] = []
        operands: list[Any] = []

        def unwrap(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                operands.append(value)
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
        if not found and asked is None:
            machine = _worn[kind][0].id if kind in _worn else "?"
            raise NoAnswerError(machine, f"torch.ops.{func}", "a tensor of that device was made outside the disguise")
        torch_refusals.refuse(torch, func, operands)
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
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is None:
            return None

        def make(*args: Any, **kwargs: Any) -> Any:
            kwargs["device"] = current(torch.device(kwargs.get("device") or kind))
            return run(op, args, kwargs)

        return make

    def whole(name: str) -> Any:
        op = getattr(torch.ops.aten, name).default
        return lambda *args, **kwargs: run(op, args, kwargs)

    key = kind.upper()
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # A build for the platform has kernels under these names already; overriding them is the point.
        warnings.simplefilter("ignore")
        for name in (*FACTORIES, *WHOLE):
            make = factory(name) if name in FACTORIES else whole(name)
            if make is None:
                continue
            try:
                library.impl(name, make, key, allow_override=True)
            except TypeError:  # torch before 2.8 has no allow_override
                library.impl(name, make, key)
        others = torch.library.Library("_", "IMPL")
        # Where C++ shuts out the Python key, as autograd's own bookkeeping does, operators come here.
        others.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), key)
    _registered[kind] = library, others


def _refuse(module: Any, kind: str) -> None:
    """Raise what a build without the platform does, after an attempt that a watcher can see."""
    with suppress(Exception):
        module._lazy_init()
    raise NotImplementedError(
        f"Could not run an operator with arguments from the '{kind.upper()}' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process."
    )


def install_methods(torch: ModuleType, kind: str, runtime: Runtime) -> None:
    """The few methods that C++ answers before anything is dispatched."""
    module = getattr(torch, kind)

    def move(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        # Tensor.cuda and Tensor.xpu look for linked code of the platform; .to() is dispatched.
        module._lazy_init()
        index = device if isinstance(device, int) else runtime.current if device is None else None
        where = torch.device(kind, index) if index is not None else torch.device(device)
        return self.to(where, non_blocking=non_blocking, memory_format=memory_format or torch.preserve_format)

    setattr(torch.Tensor, kind, move)
    # It takes C++ streams alone, and would tell the allocator of one that is idle.
    torch.Tensor.record_stream = lambda self, stream: None
    if kind == "xpu":
        _number_bare_devices(torch, module, runtime)


def _number_bare_devices(torch: ModuleType, module: ModuleType, runtime: Runtime) -> None:
    """Give "xpu" its number before C++ asks the device guard for it: see torch_guard."""

    def numbered(value: Any) -> Any:
        if (isinstance(value, str) and value == "xpu") or (
            isinstance(value, torch.device) and value.type == "xpu" and value.index is None
        ):
            module._lazy_init()
            return torch.device("xpu", runtime.current)
        return value

    def wrapped(call: Any) -> Any:
        def numbering(*args: Any, **kwargs: Any) -> Any:
            if "device" in kwargs:
                kwargs["device"] = numbered(kwargs["device"])
            return call(*map(numbered, args), **kwargs)

        numbering.__name__, numbering.__doc__ = call.__name__, call.__doc__
        return numbering

    owners = (
        (torch, ("tensor", "as_tensor", "asarray")),
        (torch.Tensor, ("to",)),
        (getattr(torch._C, "_nested", None), ("nested_tensor",)),
    )
    for owner, names in owners:
        for name in [name for name in names if hasattr(owner, name)]:
            setattr(owner, name, wrapped(getattr(owner, name)))
    new_tensor = torch.Tensor.new_tensor
    torch.Tensor.new_tensor = lambda self, data, **kwargs: new_tensor(self, data, **{"device": self.device, **kwargs})
