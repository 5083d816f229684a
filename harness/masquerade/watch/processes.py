"""Processes that an import starts, by whatever call."""

from __future__ import annotations

import _posixsubprocess
import _thread
import os
import posix
import sys
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder


def program(executable: Any, args: Any = None) -> str:
    """The base name of a started program; `python` for this interpreter, whatever its version suffix."""
    for candidate in (executable, args):
        if isinstance(candidate, (list, tuple)) and candidate:
            candidate = candidate[0]
        if isinstance(candidate, (str, bytes, os.PathLike)):
            name = os.path.basename(os.fsdecode(candidate)) or os.fsdecode(candidate)
            own = os.path.basename(sys.executable or "python")
            return "python" if name == own or name.rstrip("0123456789.") == "python" else name
    return "?"


#: Programs that take a command behind `-c`, by their base names.
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "csh", "tcsh", "fish"))


def shell_command(argv: Any) -> str:
    """What a shell started with `argv` is to run, `CMD` of `sh -c CMD`; "" where that is not said."""
    if not isinstance(argv, (list, tuple)) or len(argv) < 3 or os.fsdecode(argv[1]) != "-c":
        return ""
    return os.fsdecode(argv[2]) if program(argv[0]) in _SHELLS else ""


def isolated(argv: Any) -> bool:
    """Whether a Python started with `argv` ignores PYTHONPATH or its site module, so that no disguise reaches it."""
    if not isinstance(argv, (list, tuple)):
        return False
    for word in map(os.fsdecode, argv[1:]):
        if not word.startswith("-") or word in ("-c", "-m"):
            return False
        if not word.startswith("--") and set("IES") & set(word):
            return True
    return False


def handlers(recorder: Recorder) -> dict[str, Handler]:
    """Handlers that note `subprocess`.

    Also wraps `_posixsubprocess.fork_exec`, which multiprocessing calls without an event.
    """
    note, anything, getpid, ident = recorder.note, Exception, os.getpid, _thread.get_ident
    #: Threads in which subprocess.Popen has announced a program and not started it yet: one start is one event.
    announced: dict[int, bool] = {}

    def started(args: tuple[Any, ...]) -> None:
        argv = args[1] if len(args) > 1 else None
        try:
            what, alone, command = program(args[0], argv), isolated(argv), shell_command(argv)
        except anything:
            what, alone, command = "?", False, ""
        if what == "python" and alone:
            note("subprocess", what, isolated=True)
        elif command:
            shell(command, what)
        else:
            note("subprocess", what)

    def shell(command: str, what: str = "sh") -> None:
        note("subprocess", what, message=f"runs: {command[:200]}")

    def popen(args: tuple[Any, ...]) -> None:
        started(args)
        announced[ident()] = True

    def started_unless_announced(args: tuple[Any, ...]) -> None:
        if not announced.pop(ident(), False):
            started(args)

    fork_exec = _posixsubprocess.fork_exec

    def watched_fork_exec(*args: Any) -> int:
        started_unless_announced((args[1], args[0]))
        return fork_exec(*args)

    _posixsubprocess.fork_exec = watched_fork_exec
    _watch_leaving(recorder)
    return {
        "subprocess.Popen": popen,
        "os.posix_spawn": started_unless_announced,
        "os.exec": started,
        "os.spawn": lambda args: started(args[1:3]),
        "os.system": lambda args: shell(os.fsdecode(args[0])),
        "os.fork": lambda args: note("subprocess", "os.fork"),
        "os.forkpty": lambda args: note("subprocess", "os.forkpty"),
        "pty.spawn": lambda args: started((args[0],)),
        "os.kill": lambda args: note("leaving", "os.kill", signal=int(args[1])) if args[0] in (0, getpid()) else None,
        "os.killpg": lambda args: note("leaving", "os.killpg", signal=int(args[1])),
    }


def _watch_leaving(recorder: Recorder) -> None:
    """Note the line that ends the process at once: no exception and no exit function tells of it."""
    note = recorder.note
    for module in (os, posix):
        for name in ("_exit", "abort"):
            leave = getattr(module, name)

            def watched(*args: Any, _leave: Any = leave, _name: str = name) -> Any:
                note("leaving", f"os.{_name}")
                return _leave(*args)

            setattr(module, name, watched)
