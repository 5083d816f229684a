"""The process of one probe: runs its steps, and after each lets the recorder look at it from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

from . import steps, touch

#: Seconds after which a process ends by itself, should the recorder be gone.
LIFETIME = 120


def serve(channel: socket.socket, lines: Sequence[str], env: Mapping[str, str]) -> None:
    """Tell `channel` about each step in turn, as a line of JSON; an answer of one byte lets the next one begin."""

    def tell(message: Mapping[str, object]) -> None:
        channel.sendall(json.dumps(message).encode() + b"\n")
        channel.recv(1)

    os.environ.update(env)
    tell({"initialized": touch.inside()})
    for answer in steps.run_all(lines):
        tell({"answer": answer, "initialized": touch.inside()})
    tell({"child": touch.from_child()})


def quiet() -> None:
    """Give the process a group of its own, and nothing to read or to write to."""
    os.setpgid(0, 0)
    signal.alarm(LIFETIME)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def fork(lines: Sequence[str], env: Mapping[str, str]) -> tuple[int, socket.socket]:
    """Serve in a fork of this process: its pid, and the recorder's end of the channel."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    try:
        ours.close()
        quiet()
        serve(theirs, lines, env)
    finally:
        os._exit(0)


def spawn(lines: Sequence[str], env: Mapping[str, str]) -> tuple[int, socket.socket]:
    """Serve in a fresh interpreter that had `env` from its start."""
    ours, theirs = socket.socketpair()
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = f"import sys; sys.path.insert(0, {folder!r}); from recorder import child; child.main()"
    os.set_inheritable(theirs.fileno(), True)
    command = [sys.executable, "-c", code, str(theirs.fileno()), json.dumps(list(lines))]
    pid = os.posix_spawn(sys.executable, command, {**os.environ, **env})
    theirs.close()
    return pid, ours


def main() -> None:
    """A fresh interpreter: channel and steps are its arguments."""
    quiet()
    channel = socket.socket(fileno=int(sys.argv[1]))
    import torch  # noqa: F401  as the parent of forks has it

    serve(channel, json.loads(sys.argv[2]), {})
