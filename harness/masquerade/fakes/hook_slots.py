"""Where the virtual functions of ATen's accelerator hooks stand in their table, found by what torch calls.

A release may move them, and a wrong one would end the process. So a forked child lets torch do what must call them,
over a table that only writes down the calls; what does not look as expected, a child that dies included, is not found.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
from types import ModuleType
from typing import Any, NamedTuple

from masquerade.fakes import torch_guard

#: at::detail::getCUDAHooks() and getXPUHooks(), exported by libtorch_cpu.
_GETTERS = {"cuda": "_ZN2at6detail12getCUDAHooksEv", "xpu": "_ZN2at6detail11getXPUHooksEv"}

#: c10::GetDefaultCPUAllocator(), and the table of its class, which has no data (c10/core/CPUAllocator.cpp).
_ALLOCATOR, _ALLOCATOR_TABLE = "_ZN3c1022GetDefaultCPUAllocatorEv", "_ZTVN3c1019DefaultCPUAllocatorE"

#: More entries than a table of hooks has, and the two words that stand before its first (Itanium C++ ABI).
_ENTRIES, BEFORE = 96, 2

#: Words of a storage's object that are looked through for its allocator.
_STORAGE = 12

_SECONDS = 10


class Slots(NamedTuple):
    """Places in the table; the allocator for pinned memory; its place in a storage, in bytes, -1 if not found.

    That allocator is a second one of the CPU's class: it does the same, and a storage tells which of them made it.
    """

    built: int
    init: int
    pinned: int
    allocator: int
    allocator_at: int


Table = ctypes.Array[ctypes.c_void_p]


def find(torch: ModuleType) -> dict[str, Slots]:
    """The slots by kind (cuda, xpu); a kind that torch cannot be watched for is left out."""
    found: dict[str, Slots] = {}
    try:
        allocator = _second_allocator(torch)
    except (OSError, AttributeError, ValueError):
        return found
    for kind in _GETTERS:
        if allocator and hasattr(torch, kind):
            told = _in_a_child(lambda kind=kind: _watched(torch, kind, allocator))
            if told:
                found[kind] = Slots(*told)
    return found


def keep(thing: object) -> None:
    """Never free what C++ points to, which may ask for it until the process has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def pointer_of(torch: ModuleType, kind: str) -> Table:
    """The first word of the hooks' object, which points to the table of its functions."""
    get = getattr(_library(torch, "libtorch_cpu.so"), _GETTERS[kind])
    get.restype, get.argtypes = ctypes.c_void_p, []
    return (ctypes.c_void_p * 1).from_address(get())


def copy_of(real: int) -> Table:
    """A copy of the table at `real`, the words before it included."""
    table = (ctypes.c_void_p * (BEFORE + _ENTRIES))()
    start = real - BEFORE * ctypes.sizeof(ctypes.c_void_p)
    ctypes.memmove(table, start, min(ctypes.sizeof(table), _readable(start)))
    return table


def first_of(table: Table) -> int:
    """The address that an object has to point to."""
    return ctypes.addressof(table) + BEFORE * ctypes.sizeof(ctypes.c_void_p)


def _readable(start: int) -> int:
    """How many bytes can be read from `start`: a table may be the last thing of its library."""
    end = 0
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, rights = line.split(maxsplit=2)[:2]
            low, high = (int(word, 16) for word in span.split("-"))
            if low <= max(start, end) < high and "r" in rights:
                end = high
    return max(0, end - start)


def _library(torch: ModuleType, name: str) -> ctypes.CDLL:
    return ctypes.CDLL(os.path.join(os.path.dirname(str(torch.__file__)), "lib", name))


def _in_a_child(look: Any) -> Any:
    """What `look` returns in a forked process, through JSON. None where it fails, dies or takes too long.

    The C library forks and leaves, not `os`: nothing here is the subject's doing, and no hook of Python's runs.
    """
    try:
        process = ctypes.PyDLL(None)
        reading, writing = os.pipe()
    except OSError:
        return None
    pid = process.fork()
    if pid == 0:
        code = 1
        try:
            faulthandler.disable()  # a death here is an answer, and nobody's news
            os.write(writing, json.dumps(look()).encode())
            code = 0
        except BaseException:
            code = 2
        finally:
            process._exit(code)
    os.close(writing)
    if pid < 0:
        os.close(reading)
        return None
    try:
        ready, _, _ = select.select([reading], [], [], _SECONDS)
        told = os.read(reading, 4096) if ready else b""
        if not ready:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return json.loads(told) if told else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(reading)


def _watched(torch: Any, kind: str, allocator: int) -> Slots | None:
    """Let torch ask both kinds' hooks, over tables that write down who was asked. Ends in the child's own memory."""
    returns: dict[int, int] = {}
    calls: list[int] = []
    for each in _GETTERS:
        _recording(torch, each, *((calls, returns) if each == kind else ([], {})))
    torch_guard.install(torch, kind)

    torch._C._accelerator_getAccelerator()
    if len(set(calls)) != 1:
        return None
    built = calls[0]
    returns[built] = 1
    if torch.device(0).type != kind:
        return None

    # Any function may turn out to be the one that gives the allocator; one that gives a bool must not say yes by it.
    returns.update(dict.fromkeys(set(range(_ENTRIES)) - {built}, allocator))
    calls.clear()
    first = torch.empty(3, pin_memory=True)
    before, init, pinned = calls[-3:]
    if before != built or len({built, init, pinned}) != 3:
        return None
    storages = [torch.empty(5, pin_memory=True).untyped_storage(), torch.empty(5).untyped_storage()]
    del first
    return Slots(built, init, pinned, allocator, _place_in_storage(allocator, *storages))


def _place_in_storage(allocator: int, pinned: Any, plain: Any) -> int:
    """Where a storage names its allocator."""
    words = [(ctypes.c_uint64 * _STORAGE).from_address(storage._cdata) for storage in (pinned, plain)]
    places = [place for place in range(_STORAGE) if words[0][place] == allocator != words[1][place]]
    return places[0] * 8 if len(places) == 1 else -1


def _second_allocator(torch: ModuleType) -> int:
    """The address of a second allocator for the CPU, a multiple of 256. 0 where torch's is of another class."""
    library = _library(torch, "libc10.so")
    get = getattr(library, _ALLOCATOR)
    get.restype, get.argtypes = ctypes.c_void_p, []
    functions = ctypes.addressof(ctypes.c_char.in_dll(library, _ALLOCATOR_TABLE)) + BEFORE * 8
    if ctypes.c_void_p.from_address(get()).value != functions:
        return 0
    room = ctypes.create_string_buffer(1024)
    keep(room)
    start = (ctypes.addressof(room) + 255) & ~255
    ctypes.c_void_p.from_address(start).value = functions
    return start


def _recording(torch: ModuleType, kind: str, calls: list[int], returns: dict[int, int]) -> None:
    """Point the hooks of `kind` to functions that write down their place."""
    pointer = pointer_of(torch, kind)
    table = copy_of(pointer[0] or 0)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)

    def recorder(place: int) -> Any:
        def asked(hooks: int, argument: int) -> int:
            calls.append(place)
            return returns.get(place, 0)

        return function(asked)

    recorders = [recorder(place) for place in range(_ENTRIES)]
    for place, each in enumerate(recorders):
        table[BEFORE + place] = ctypes.cast(each, ctypes.c_void_p).value
    keep((table, recorders))
    pointer[0] = first_of(table)
