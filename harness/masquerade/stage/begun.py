"""Imports that each check of a server would make first, made once in a server that wears a machine.

A check names such modules itself. Where their import leaves nothing behind but modules, the server goes on from there
and forks for each check; where it does more, it must not serve, and each check imports them in a fork of its own.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from masquerade.stage import supervise
from masquerade.stage.branch import shared_memory
from masquerade.stage.integrity import seal

#: Whether this process forks for a check just now.
_forking = [False]


def begin(modules: Sequence[str], told: Callable[[], int], threads: Callable[[], int]) -> bool:
    """Import `modules` here. False where that leaves more than modules behind, and this process must not serve.

    `told` counts the events that watchers had to tell so far, `threads` the live threads of the subject.
    """
    _keep_forks_quiet()
    intact, before, events = seal(), _held(), told()
    clean = _imported_without_a_word(modules)
    clean = clean and told() == events and _held() == before and threads() <= 0 and intact()
    gc.collect()
    gc.freeze()
    return clean


def fork() -> int:
    """Fork for a check, which no module that was imported here is told of: to the check it is a fresh process."""
    _forking[0] = True
    pid = os.fork()
    _forking[0] = False
    return pid


def _imported_without_a_word(modules: Sequence[str]) -> bool:
    printed = os.memfd_create("masquerade-output")
    streams = [os.dup(fd) for fd in (1, 2)]
    try:
        for fd in (1, 2):
            os.dup2(printed, fd)
        for name in modules:
            importlib.import_module(name)
        return not _written(printed)
    except BaseException:
        return False
    finally:
        for fd, stream in enumerate(streams, start=1):
            os.dup2(stream, fd)
            os.close(stream)
        os.close(printed)


def _written(output: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    return os.lseek(output, 0, os.SEEK_END)


def _keep_forks_quiet() -> None:
    """What modules ask to be called at forks is not called at those of this server."""
    register = os.register_at_fork

    def quiet(function: Any) -> Any:
        return function if not callable(function) else lambda: None if _forking[0] else function()

    def register_at_fork(**functions: Any) -> None:
        register(**{when: quiet(function) for when, function in functions.items()})

    os.register_at_fork = register_at_fork


def _held() -> tuple[object, ...]:
    """Open files, threads, processes and shared memory of this process, as far as they can be counted."""
    found: list[object] = [supervise._children()]
    for folder in ("/proc/self/fd", "/proc/self/task"):
        with suppress(OSError):
            found.append(len(os.listdir(folder)))
    return (*found, shared_memory())
