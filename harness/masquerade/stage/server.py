"""The fork server: preloads torch, never computes, and runs each check in a child of its own.

`serve` is started by `stage.client` through `bootstrap.line`, in the subject's interpreter.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import platform
import re
import socket
import sys
from collections.abc import Collection
from mmap import mmap
from typing import Any, NoReturn

from masquerade.stage import child, disguise, log, pages, supervise, wire
from masquerade.stage.branch import ended
from masquerade.stage.dressed import Dressed, Wardrobe
from masquerade.stage.places import loaded, where_things_lie
from masquerade.stage.trace.process import Traced
from masquerade.stage.tree import Item, Tree

#: Descriptors that are a device: one that is open means somebody already touched it.
DEVICE_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg")


#: The oldest torch whose answers are known here.
OLDEST_TORCH = (2, 11)


class RefusedError(RuntimeError):
    """The server may not start: what it would fork is not clean."""


def preload(wanted: bool = True) -> dict[str, Any]:
    """Import torch alone, where the environment has it, and every module of the child side.

    Gives facts about the environment.
    """
    torch_version = None
    torch_error = ""
    if wanted and importlib.util.find_spec("torch") is not None:
        # One thread: a fork copies the calling thread alone, and OpenBLAS starts its own at import.
        names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
        before = {name: os.environ.get(name) for name in names}
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        try:
            import torch
        except BaseException as error:
            torch_error = f"{type(error).__name__}: {error}"
            for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
                del sys.modules[name]
        else:
            from masquerade.fakes import torch_runtime
            from masquerade.watch import devices

            torch_version = str(torch.__version__)
            torch_runtime.prepare(torch)
            devices.surface(torch)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    disguise.load()
    child.forget_exits()  # here, so that children share what it changes
    return {
        "executable": sys.executable,
        "system": platform.system(),
        "torch": torch_version,
        "torch_error": torch_error,
        "loaded": loaded(),
        **where_things_lie(),
    }


def inspect_self(torch_version: str) -> None:
    """Raises RefusedError where a child of this process would not start clean, or its torch is not known here."""
    numbers = re.match(r"(\d+)\.(\d+)", torch_version)
    if numbers and tuple(map(int, numbers.groups())) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise RefusedError(f"torch {torch_version} is not supported, {oldest} or newer is; --python names another")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise RefusedError("torch.cuda is initialized after `import torch` alone; a child could not be judged")
    if not sys.platform.startswith("linux"):
        return
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(DEVICE_FILES):
            raise RefusedError(f"{target} is open after `import torch` alone; a child could not be judged")
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RefusedError(
            f"the server has {threads} threads after `import torch` alone, and a fork copies only one; "
            "look for a .pth file or a sitecustomize that starts threads, or use --isolation fresh"
        )


def forked(
    request: dict[str, Any], memory: mmap, output: int, control: socket.socket, dressed: Dressed | None = None
) -> int:
    """Fork a child that runs `request`; gives its pid."""
    parent = os.getpid()
    pid = os.fork() if dressed is None else dressed.fork()
    if pid:
        return pid
    try:
        os.setsid()
        supervise.die_with_parent(parent)
        control.close()
        supervise.standard_streams(output)
        if dressed is not None and "machine" in request:
            dressed.leaf(request, memory)
        child.run(request, memory)
    finally:
        os._exit(70)


def serve(fd: int, fresh: bool, torch: bool = True) -> NoReturn:
    """Answer requests on the socket `fd` until it closes."""
    control = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    try:
        supervise.adopt_orphans()
        supervise.prepare_last_words()
        facts = {**preload(torch and not fresh), **(fresh_facts() if fresh else {})}
        inspect_self(str(facts["torch"]))
    except RefusedError as error:
        wire.send(control, {"refused": str(error)})
        sys.exit(3)
    sys.argv[:] = [""]
    gc.collect()
    gc.freeze()
    if not fresh:
        pages.join()
    wire.send(control, {"ready": facts, "pid": os.getpid()})
    loop(control, fresh)


def loop(control: socket.socket, fresh: bool = False, dressed: Dressed | None = None) -> NoReturn:
    """Answer requests until `control` closes, in a bare server or in one that wears a machine."""
    wardrobe = Wardrobe(control, lambda socket, dressed: loop(socket, dressed=dressed))
    while True:
        request = wire.receive(control)
        if request is None:
            os._exit(0)
        if "tree" in request or "trace" in request:
            grow(request, control)
            supervise.end_descendants(wardrobe.pids)
            wire.send(control, {"done": True})
            continue
        reply = wardrobe.answer(request) if dressed is None and not fresh else None
        if reply is None:
            reply = answer(request, control, fresh, dressed, wardrobe.pids)
        reply["dressed"] = sorted(wardrobe.pids)
        wire.send(control, reply)


def grow(request: dict[str, Any], control: socket.socket) -> None:
    """Make the checks of a tree or of a trace in a process below this one; it replies by itself.

    `tree` or `trace` is what the checks share, `items` are [id, module] of each. A reply that does not come was lost
    with a process that a subject ended, or is doubtful.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        ended(pid, control)
        os.waitpid(pid, 0)
        return
    try:
        supervise.die_with_parent(parent)
        supervise.adopt_orphans()
        if "trace" in request:
            Traced(request["trace"], control, request["items"]).answer()
            child._leave(0)
        shared = request["tree"]
        tree = Tree(shared, control, lambda asked, tree: answer(asked, tree.control, False, tree))
        gc.freeze()
        tree.visit([Item(name, module, {**shared, "id": name, "module": module}) for name, module in request["items"]])
    finally:
        child._leave(0)


def answer(
    request: dict[str, Any],
    control: socket.socket,
    fresh: bool,
    dressed: Dressed | None = None,
    spared: Collection[int] = (),
) -> dict[str, Any]:
    """Run one request: a check, or a search for modules. `spared` are children of this process that go on."""
    memory_fd = -1
    if fresh:
        memory_fd = os.memfd_create("masquerade-log")
        os.ftruncate(memory_fd, log.SIZE)
    memory = log.allocate(memory_fd)
    read_end, write_end = os.pipe()
    try:
        if fresh:
            pid = supervise.fresh(request, memory_fd, write_end)
        else:
            pid = forked(request, memory, write_end, control, dressed)
        os.close(write_end)
        write_end = -1
        outcome = supervise.watch_over(pid, memory, read_end, control, request.get("timeout", 60.0))
        supervise.end_descendants(spared)
        contents = log.read(memory)
    finally:
        for descriptor in (read_end, write_end, memory_fd):
            if descriptor >= 0:
                os.close(descriptor)
        memory.close()
    return {
        **outcome,
        "id": request.get("id"),
        "events": [text.decode("utf-8", "replace") for text in contents.events],
        "closing": contents.closing.decode("utf-8", "replace") if contents.closing is not None else None,
        "damaged": contents.damaged,
        "full": contents.full,
    }


def fresh_facts() -> dict[str, Any]:
    """Facts about torch without importing it: each check of this stage imports it anew."""
    if importlib.util.find_spec("torch") is None:
        return {}
    from importlib import metadata

    try:
        return {"torch": metadata.version("torch")}
    except metadata.PackageNotFoundError:
        return {"torch": "of unknown version"}


def fresh_child(memory_fd: int, request_fd: int) -> NoReturn:
    """The other side of `supervise.fresh`: a fresh interpreter preloads torch and runs one check."""
    memory = log.allocate(memory_fd)
    os.close(memory_fd)
    with os.fdopen(request_fd, "rb") as file:
        request = json.loads(file.read())
    supervise.prepare_last_words()
    preload()
    gc.collect()
    gc.freeze()
    child.run(request, memory)
