"""torch.cuda.FloatTensor and its like: types that C++ makes, and that refuse all in a build without CUDA.

The refusal is compiled into them, below any table, so the names in torch.cuda get types that stand before them. What
is told to torch._C by name or type is told anew there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from masquerade.fakes import torch_hooks

#: Name -> the type that stands before the real one; made once in a server. None are needed in a build with CUDA.
_types: dict[str, Any] = {}

#: Whether the machine of this process has CUDA devices.
_worn = [False]


def prepare(torch: Any) -> None:
    """Make the types, where C++ refuses the real ones."""
    if hasattr(torch._C, "_cuda_init"):
        return
    for name, real in list(vars(torch.cuda).items()):
        if type(real) is type(torch.FloatTensor) and real.is_cuda:
            _types[name] = _before(torch, name, real)


def install(torch: Any, wanted: bool) -> None:
    """Put the types in their places; `wanted` where the machine has CUDA devices."""
    _worn[0] = wanted
    if not _types:
        return
    vars(torch.cuda).update(_types)
    core = torch._C
    set_default = core._set_default_tensor_type

    def _set_default_tensor_type(kind: Any) -> None:
        ours = isinstance(kind, type) and _types.get(kind.__name__) is kind
        if ours and not _worn[0]:
            _attempt(torch)
        if ours and _worn[0]:
            # C++ has no such default here. The default device says the same for every factory of this thread.
            core._set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")
            core._set_default_tensor_type.on_device = True
            return
        set_default(kind._real if ours else kind)
        if core._set_default_tensor_type.on_device:
            core._set_default_tensor_type.on_device = False
            torch.set_default_device(None)

    _set_default_tensor_type.on_device = False  # type: ignore[attr-defined]
    core._set_default_tensor_type = _set_default_tensor_type


def _attempt(torch: Any) -> None:
    """Let a watcher see the attempt on a machine without CUDA: C++ refuses it without a look at any device."""
    with suppress(Exception):
        torch.cuda._lazy_init()


def _before(torch: Any, name: str, real: Any) -> Any:
    on_host = getattr(torch, name)

    class Kind(type):
        """The type of such a type: what is asked of one is asked of the real one."""

        __name__ = name
        _real = real

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if not _worn[0]:
                _attempt(torch)
                return real(*args, **kwargs)
            torch_hooks.begin(torch.cuda)
            device = torch.device(kwargs.pop("device", None) or "cuda")
            if args and isinstance(args[0], torch.Tensor) and args[0].device.type == "cuda":
                return args[0].to(device, real.dtype)
            return on_host(*args, **kwargs).to(device)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, torch.Tensor) and (instance.device.type, instance.dtype, instance.layout) == (
                "cuda",
                real.dtype,
                real.layout,
            )

        def __getattr__(cls, attribute: str) -> Any:
            return getattr(real, attribute)

        def __repr__(cls) -> str:
            return repr(real)

    # C++ reads a type's whole name: Tensor.type() takes it for the text.
    return Kind(f"torch.cuda.{name}", (), {"__module__": "torch.cuda", "__doc__": real.__doc__})
