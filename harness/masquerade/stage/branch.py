"""What a process needs that forks others to go on from where it is: to wait for them, and to see what they left."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress

from masquerade.stage import child, supervise


def ended(pid: int, control: socket.socket, timeout: float | None = None, fd: int = -1) -> int:
    """Wait until process `pid` ends, or `fd` can be read; gives which of them, or 0 when `timeout` seconds are over.

    Ends this process when nobody listens at `control` any more.
    """
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(control.fileno(), select.POLLHUP | select.POLLRDHUP)
        poll.register(process, select.POLLIN)
        if fd >= 0:
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(None if timeout is None else timeout * 1000))
    finally:
        os.close(process)
    if control.fileno() in ready:
        _end(pid)
        child._leave(0)
    return fd if fd in ready and ready[fd] & select.POLLIN else pid if process in ready else 0


def _end(pid: int) -> None:
    """Give a branch the time to end its own check, then end it and what it left."""
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    if not poll.poll(1000):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, 0)
    supervise.end_descendants()


def descriptors() -> frozenset[str]:
    """The open descriptors; a shared one that a subject opened would be closed with the tool's own."""
    try:
        return frozenset(os.listdir("/proc/self/fd"))
    except OSError:
        return frozenset()


def shared_memory() -> frozenset[str]:
    """The writable maps that a fork would share: what one check writes there, the next one reads."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return frozenset(line.partition(" ")[0] for line in file if line.split(" ", 2)[1][1::2] == "ws")
    except OSError:
        return frozenset()


def flush() -> None:
    """Write out what the standard streams hold back."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def native_threads() -> int:
    """The threads of this process, those of C libraries too."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
