"""Runs many probes, each in a process of its own, some at a time, none longer than its limit."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from . import child, touch
from .probes import Probe

Result = dict[str, Any]

#: Seconds that a process may take to go. One that hangs in a driver even when killed is left alone.
GRACE = 10.0

#: Seconds that a fresh interpreter may take besides, to import torch.
START = 60.0


class Job(NamedTuple):
    """A probe, and the variables that it sets on this machine."""

    probe: Probe
    env: Mapping[str, str]


class _Process:
    """One process: what it has told so far, and what was seen of it."""

    def __init__(self, job: Job, limit: float) -> None:
        start = child.spawn if job.probe.fresh else child.fork
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 and newer warn of a fork beside threads
            self.pid, self.channel = start(job.probe.steps, job.env)
        self.job, self.deadline = job, time.monotonic() + limit + (START if job.probe.fresh else 0)
        self.result: Result = {"before": {}, "steps": []}
        self.ended = False
        self._buffer = b""
        self._killed = ""

    def read(self) -> None:
        """Take what the process says, and let it go on."""
        said = b""
        with suppress(OSError):
            said = self.channel.recv(1 << 16)
            self._buffer += said
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                self._take(json.loads(line))
                self.channel.sendall(b".")
        if not said:
            self._end()

    def kill(self, why: str) -> None:
        """End the process before its time, with all that it started."""
        self._killed = why
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.killpg(self.pid, signal.SIGKILL)
        self._end()

    def gone(self) -> bool:
        """Whether an ended process has left, or has had its time for it."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else has waited for it
            pid, status = self.pid, 0
        if not pid and time.monotonic() < self.deadline:
            return False
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started
        if "child" not in self.result:
            self.result["unfinished"] = self._killed or _status(status)
        return True

    def _take(self, message: dict[str, Any]) -> None:
        if "child" in message:
            self.result["child"] = message["child"]
            return
        seen = {"initialized": message["initialized"], **(touch.outside(self.pid) or {})}
        if "answer" in message:
            self.result["steps"].append({**message["answer"], "touch": seen})
        else:
            self.result["before"] = seen

    def _end(self) -> None:
        self.channel.close()
        self.ended, self.deadline = True, time.monotonic() + GRACE


def _status(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"


def run_all(jobs: Iterable[Job], at_once: int, limit: float, total: float) -> Iterator[tuple[Job, Result]]:
    """Run jobs, `at_once` at a time, each for `limit` seconds at most. After `total` seconds none is begun any more."""
    waiting, running = deque(jobs), set[_Process]()
    stop = time.monotonic() + total
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            if time.monotonic() > stop:
                while waiting:
                    yield waiting.popleft(), {"steps": [], "unfinished": f"not begun within {total:g} seconds"}
            while waiting and len(running) < at_once:
                process = _Process(waiting.popleft(), limit)
                running.add(process)
                selector.register(process.channel, selectors.EVENT_READ, process)
            ready = {key.data for key, _ in selector.select(0.01 if any(one.ended for one in running) else 0.2)}
            for one in list(running):
                if not one.ended and (one in ready or time.monotonic() > one.deadline):
                    channel = one.channel
                    late = time.monotonic() > one.deadline
                    selector.unregister(channel)
                    one.kill(f"took more than {limit:g} seconds") if late else one.read()
                    if not one.ended:
                        selector.register(channel, selectors.EVENT_READ, one)
                elif one.ended and one.gone():
                    running.remove(one)
                    yield one.job, one.result
