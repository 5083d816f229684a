"""The device guard of C++: what ATen and autograd ask for the current device and stream of a device type.

A build without the platform has none, and where one is wanted C++ raises ("PyTorch is not linked with support for cuda
devices") or ends the process; a build with the platform has one that calls the driver. torch has a guard that does
nothing and puts it in place where the present one counts no devices (torch._C._ensureCUDADeviceGuardSet): here a
present one that counts none is set first, in the table that libc10 exports. Nothing in Python reaches lower or could
stand instead of it.
"""

from __future__ import annotations

import ctypes
import glob
import os
from types import ModuleType

#: c10::impl::device_guard_impl_registry, pointers by device type (c10/core/impl/DeviceGuardImplInterface.h).
_SYMBOL = "_ZN3c104impl26device_guard_impl_registryE"

#: Device types of c10/core/DeviceType.h.
_TYPES = {"cuda": 1, "xpu": 12}
_META = 14

#: More entries than the guard's table of virtual functions has.
_ENTRIES = 96

_tables: dict[str, ctypes.Array[ctypes.c_void_p]] = {}
_alive: list[object] = []


def _table(torch: ModuleType) -> ctypes.Array[ctypes.c_void_p] | None:
    """The table of a loaded torch; None where the library does not export it."""
    folder = os.path.join(os.path.dirname(str(torch.__file__)), "lib")
    for file in sorted(glob.glob(os.path.join(folder, "libc10.so"))):
        try:
            return (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(file), _SYMBOL)
        except (OSError, ValueError):
            return None
    return None


def prepare(torch: ModuleType) -> None:
    """Find the table, once in a server."""
    table = _table(torch)
    if table is None:
        return
    _tables["c10"] = table
    # A guard whose every virtual function returns 0, the count of devices among them, whatever the order.
    zero = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 0)
    functions = (ctypes.c_void_p * _ENTRIES)(*[ctypes.cast(zero, ctypes.c_void_p).value] * _ENTRIES)
    _tables["no devices"] = (ctypes.c_void_p * 1)(ctypes.addressof(functions))
    _alive.extend((zero, functions))


def install(torch: ModuleType, kind: str) -> bool:
    """Put a guard that does nothing in the place of `kind` (cuda or xpu). False where that cannot be done.

    torch makes one for CUDA alone; xpu gets that of the meta device, for which "the current device" is a meta device,
    so a bare "xpu" needs its number before C++ sees it: see `torch_tensor`.
    """
    if not _tables:
        prepare(torch)
    table = _tables.get("c10")
    if table is None:
        return False
    if kind == "xpu":
        table[_TYPES[kind]] = table[_META]
        return bool(table[_META])
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is None:
        return False
    cuda = _TYPES["cuda"]
    before, none = table[cuda], ctypes.addressof(_tables["no devices"])
    table[cuda] = none
    ensure()
    if table[cuda] == none:
        table[cuda] = before
        return False
    return True
