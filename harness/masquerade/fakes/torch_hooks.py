"""The accelerator hooks of ATen: whether a build has CUDA or XPU, its initialization, its pinned memory.

C++ asks them below Python: `torch.device(0)`, `pin_memory=True`, `.type("torch.cuda.FloatTensor")`. A build without the
platform holds an object whose virtual functions say no or raise; three of them are answered, which `hook_slots` finds.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from masquerade.fakes import hook_slots
from masquerade.fakes.hook_slots import Slots


class _Hooks(NamedTuple):
    """The hooks of one kind: where their object points to its functions, and a table to point to."""

    pointer: ctypes.Array[ctypes.c_void_p]
    table: int
    slots: Slots


#: An answer that no function gives: then its original runs, and says or raises what it does.
_GO_ON = -1

#: Kind (cuda or xpu) -> its hooks, made once in a server.
_hooks: dict[str, _Hooks] = {}

#: Kind -> (torch.cuda or torch.xpu, whether the machine has the platform), in this process.
_asked: dict[str, tuple[Any, bool]] = {}


def begin(module: Any) -> None:
    """Initialize torch.cuda or torch.xpu where C++ would do it itself. Raises what that raises."""
    if not module.is_initialized():
        module._lazy_init()


def prepare(torch: ModuleType) -> None:
    """Find the hooks and make the tables, once in a server. Where one cannot be found its hooks stay as they are."""
    for kind, slots in hook_slots.find(torch).items():
        hooks = _patched(torch, kind, slots)
        if hooks is not None:
            _hooks[kind] = hooks


def install(torch: ModuleType, kind: str, wanted: bool) -> bool:
    """Answer for `kind` in this process; `wanted` where the machine has it. False where that cannot be done."""
    found = _hooks.get(kind)
    if found is None:
        return False
    _asked[kind] = getattr(torch, kind), wanted
    found.pointer[0] = found.table
    return True


def holds_pinned(storage: Any) -> bool:
    """Whether a storage of host memory was made as pinned memory by C++."""
    for kind, (_, wanted) in _asked.items():
        found = _hooks.get(kind)
        if wanted and found is not None and found.slots.allocator_at >= 0:
            address = storage._cdata + found.slots.allocator_at
            return ctypes.c_void_p.from_address(address).value == found.slots.allocator
    return False


def _patched(torch: ModuleType, kind: str, slots: Slots) -> _Hooks | None:
    """The hooks with three functions of ours among their own. None where no code can be made here.

    Nothing may be raised in them: C++ cannot be left that way.
    """

    def is_built(hooks: int) -> int:
        return int(_asked[kind][1])

    def init(hooks: int) -> int:
        module, wanted = _asked[kind]
        with suppress(BaseException):
            module._lazy_init()
        # What follows in C++ asks Python again, which says what is wrong.
        return 0 if wanted or not refuses else _GO_ON

    def pinned(hooks: int) -> int:
        with suppress(BaseException):
            begin(_asked[kind][0])
            return slots.allocator
        return _GO_ON

    # Only a build without the platform refuses to initialize it without a look at any device.
    refuses = not hasattr(torch._C, f"_{kind}_init")
    pointer = hook_slots.pointer_of(torch, kind)
    real, table = hook_slots.copy_of(pointer[0] or 0), hook_slots.copy_of(pointer[0] or 0)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    hook_slots.keep(table)
    for slot, answer in ((slots.built, is_built), (slots.init, init), (slots.pinned, pinned)):
        place = hook_slots.BEFORE + slot
        made = function(answer)
        code = _then(ctypes.cast(made, ctypes.c_void_p).value or 0, real[place] or 0)
        if code is None:
            return None
        table[place] = ctypes.addressof(ctypes.c_char.from_buffer(code))
        hook_slots.keep((made, code))
    return _Hooks(pointer, hook_slots.first_of(table), slots)


def _then(ask: int, original: int) -> mmap.mmap | None:
    """Machine code that answers as `ask` does, or goes on as `original`, whose exception then passes by us.

    None on a processor other than x86-64, or where memory may not be made executable.
    """
    if platform.machine() != "x86_64":
        return None
    code = b"".join(
        [
            b"\xf3\x0f\x1e\xfa",  # endbr64
            b"\x57",  # push rdi, which also aligns the stack
            b"\x48\xb8" + struct.pack("<Q", ask) + b"\xff\xd0",  # call ask
            b"\x5f",  # pop rdi
            b"\x48\x83\xf8\xff\x74\x01\xc3",  # return if its answer is not _GO_ON
            b"\x48\xb8" + struct.pack("<Q", original) + b"\xff\xe0",  # jump to the original
        ]
    )
    rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=rights)
    except OSError:
        return None
    memory.write(code)
    return memory
