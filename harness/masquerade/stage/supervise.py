"""A child from its start to its last descendant: streams, time limit, captured output, and nothing left behind."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from mmap import mmap
from typing import Any

from masquerade.stage import bootstrap, log

#: Bytes kept of a child's output, and how much of a flood is read at once.
TAIL = 16_384
CHUNK = 1 << 20

#: Seconds that exit functions may take after the closing record.
GRACE = 1.0

#: A child that overruns its limit is asked for its stack by this signal, which nothing else uses.
STACK_SIGNAL = getattr(signal, "SIGRTMAX", 64) - 3

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def die_with_parent(parent: int) -> None:
    """End this child when its server ends, however that ends."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(70)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends: a daemon cannot slip away."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def standard_streams(output: int) -> None:
    """Empty standard input; standard output and error into `output`; no other descriptor is left open."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 4096)


def prepare_last_words() -> None:
    """A process that crashes, or is asked, writes its stack to standard error; none leaves a core file.

    A server does this once for all of its children: each of them would pay for it in memory of its own.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2, all_threads=False)
    faulthandler.register(STACK_SIGNAL, file=2, all_threads=False)


def fresh(request: dict[str, Any], memory_fd: int, output: int) -> int:
    """Start a fresh interpreter that runs `request`; gives its pid."""
    request_fd = os.memfd_create("masquerade-request")
    with os.fdopen(os.dup(request_fd), "wb") as file:
        file.write(json.dumps(request).encode())
    os.lseek(request_fd, 0, os.SEEK_SET)
    source = bootstrap.line("masquerade.stage.server", "fresh_child", 4, 5)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(request_fd)
        return pid
    try:
        os.setsid()
        die_with_parent(parent)
        high = [os.dup2(fd, 60 + place, inheritable=True) for place, fd in enumerate((memory_fd, request_fd, output))]
        os.dup2(high[0], 4)
        os.dup2(high[1], 5)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(high[2], 1)
        os.dup2(high[2], 2)
        os.closerange(6, 64)
        os.close(3)
        os.execv(sys.executable, [sys.executable, "-c", source])
    finally:
        os._exit(70)


class _Tail:
    """The end of what a child wrote."""

    def __init__(self) -> None:
        self.kept = b""
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.kept = (self.kept + piece)[-TAIL:] if len(piece) < TAIL else piece[-TAIL:]

    def drain(self, fd: int) -> bool:
        """Read what is there; False at the end of the stream."""
        try:
            piece = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        self.add(piece)
        return bool(piece)


def watch_over(pid: int, memory: mmap, output: int, control: socket.socket, timeout: float) -> dict[str, Any]:
    """Wait for a child, at most `timeout` seconds, and collect its output.

    Ends this process when `control` closes: a server outlives neither its tool nor its tool's interest.
    """
    os.set_blocking(output, False)
    tail, poll = _Tail(), select.poll()
    process = os.pidfd_open(pid)
    poll.register(process, select.POLLIN)
    poll.register(output, select.POLLIN)
    poll.register(control.fileno(), select.POLLHUP | select.POLLRDHUP)
    started = time.monotonic()
    deadline, closed_at, timed_out = started + timeout, 0.0, False
    try:
        while True:
            now = time.monotonic()
            if not closed_at and log.closed(memory):
                closed_at = now
                deadline = min(deadline, now + GRACE)
            if now >= deadline:
                timed_out = not log.closed(memory)
                if timed_out:
                    _ask_for_stack(pid, output, tail)
                os.kill(pid, signal.SIGKILL)
                break
            ready = dict(poll.poll(max(1, min(deadline - now, 0.05 if not closed_at else GRACE) * 1000)))
            if control.fileno() in ready:
                _kill_group(pid)
                end_descendants()
                os._exit(0)
            if output in ready and not tail.drain(output):
                poll.unregister(output)
            if process in ready:
                break
    finally:
        os.close(process)
    _, status = os.waitpid(pid, 0)
    seconds = time.monotonic() - started
    _kill_group(pid)
    while select.select([output], [], [], 0)[0] and tail.drain(output) and tail.size < 1 << 30:
        pass
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "seconds": seconds,
        "output": tail.kept.decode("utf-8", "replace"),
        "output_bytes": tail.size,
    }


def _ask_for_stack(pid: int, output: int, tail: _Tail) -> None:
    """Let the child write its stack to standard error, for the blame of a timeout. It may not be able to."""
    try:
        os.kill(pid, STACK_SIGNAL)
    except OSError:
        return
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        if not select.select([output], [], [], 0.05)[0] or not tail.drain(output):
            return


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def parents() -> dict[int, int]:
    """pid -> parent's pid of every process that can be seen. Empty where there is no /proc."""
    found = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    # The name may hold spaces, brackets and line ends: fields start behind the last bracket.
                    found[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    return found


def descendants(pid: int) -> set[int]:
    """All processes below `pid`."""
    above = parents()
    below = {pid}
    while more := {child for child, parent in above.items() if parent in below} - below:
        below |= more
    return below - {pid}


def _children() -> list[int]:
    """Direct children of this process."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [child for child, parent in parents().items() if parent == me]


def end_descendants(spared: Collection[int] = ()) -> None:
    """Kill and reap whatever the check left: its group is dead, so these are orphans that came to this process.

    `spared` are this process's own.
    """
    for _ in range(1000):
        left = [child for child in _children() if child not in spared]
        if not left:
            return
        for orphan in left:
            try:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
            except OSError:
                pass
