"""A server as the tool holds it: a process of the subject's interpreter, and the socket to it."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from masquerade.stage import bootstrap, wire
from masquerade.stage.check import InterpreterError, StageError

#: Seconds that a server may take to start: it imports torch, on a busy machine with a cold disk.
START = 300.0

#: How the system refuses to start what is no program.
_NONE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)

#: Variables by which packages know that they are being tested, and behave differently.
_TEST_VARIABLES = ("PYTEST_", "COV_CORE_", "COVERAGE_PROCESS")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables of a test run that this tool itself may be part of."""
    return {key: value for key, value in environ.items() if not key.startswith(_TEST_VARIABLES)}


class Server:
    """One fork server and the socket to it."""

    def __init__(self, python: str, fresh: bool, torch: bool = True) -> None:
        self.python = python
        self._how = fresh, torch
        self.facts: dict[str, Any] = {}
        #: Servers below it that wear a machine, as it said last.
        self.dressed: tuple[int, ...] = ()
        self.ready = False
        self._closed = self._killed = False
        self._start()

    def _start(self) -> None:
        python = self.python
        ours, theirs = socket.socketpair()
        source = bootstrap.line("masquerade.stage.server", "serve", theirs.fileno(), *self._how)
        try:
            self.process = subprocess.Popen(
                [python, "-c", source],
                pass_fds=[theirs.fileno()],
                env=clean_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            theirs.close()
            kind = InterpreterError if error.errno in _NONE else StageError
            raise kind(f"cannot start {python}: {error.strerror}; give --python an interpreter") from None
        theirs.close()
        self.socket = ours

    def wait_ready(self) -> None:
        """Wait for the server's first frame, of a second one where somebody killed the first as it started.

        Raises StageError with its last words if it does not come.
        """
        if self.ready:
            return
        try:
            first = self._first_frame()
        except StageError:
            if not self._killed or self._closed:
                raise
            self._end()
            self._start()
            first = self._first_frame()
        if "refused" in first:
            self.close()
            raise StageError(f"the server refuses to start: {first['refused']}")
        self.facts = first["ready"]
        self.ready = True

    def _first_frame(self) -> dict[str, Any]:
        self.socket.settimeout(START)
        try:
            first = wire.receive(self.socket)
        except (wire.WireError, OSError) as error:
            raise self._failure(f"{error}; ") from None
        if first is None:
            raise self._failure()
        self.socket.settimeout(None)
        return first

    def _failure(self, why: str = "") -> StageError:
        """Why no first frame came: by fault of the interpreter, or else of the server."""
        words = self._last_words()
        if not self._killed and (other := _no_python(self.python)):
            return InterpreterError(f"{self.python} does not execute Python: {other}; give --python an interpreter")
        kind = InterpreterError if words.endswith(bootstrap.TOO_OLD) else StageError
        return kind(f"the server did not start in {self.python}, which must be a Python of 3.10 or newer: {why}{words}")

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._killed = self.process.wait(1.0) < 0
        self.process.kill()
        _, error = self.process.communicate()
        return _last_line(error) or f"it ended with status {self.process.returncode} and said nothing"

    def close(self) -> None:
        """End the server; it ends its children when its socket closes."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a reply
        self.socket.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


def _no_python(program: str) -> str:
    """What a program says that cannot execute one line of Python; "" for one that can."""
    try:
        done = subprocess.run(
            [program, "-c", "print(6 * 7)"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10.0, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.stdout.split()[-1:] == [b"42"]:
        return ""
    return _last_line(done.stderr) or _last_line(done.stdout) or f"it ended with status {done.returncode}"


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
