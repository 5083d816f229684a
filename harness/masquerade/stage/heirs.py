"""Programs that a disguised process starts with an environment of their own: a Python among them is disguised too."""

from __future__ import annotations

import _posixsubprocess
import os
import posix
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_KEY = "PYTHONPATH"

#: The place of the environment in the arguments of `_posixsubprocess.fork_exec`, since Python 3.9.
_ENVIRONMENT = 5


def install(site: str) -> None:
    """Keep the folder `site`, which holds the disguise's sitecustomize, first on the PYTHONPATH of all that is started.

    `env`, a shell or another program that drops the variable is not reached.
    """
    fork_exec = _posixsubprocess.fork_exec

    def fork_exec_with(*args: Any) -> int:
        row = list(args)
        if row[_ENVIRONMENT] is not None:
            pairs = {os.fsdecode(name): os.fsdecode(value) for name, _, value in _split(row[_ENVIRONMENT])}
            row[_ENVIRONMENT] = [os.fsencode(f"{name}={value}") for name, value in _with(pairs, site).items()]
        elif not _has(os.environ, site):
            row[_ENVIRONMENT] = [os.fsencode(f"{k}={v}") for k, v in _with(os.environ, site).items()]
        return fork_exec(*row)

    _posixsubprocess.fork_exec = fork_exec_with
    _replace("execve", lambda call: lambda path, argv, env, **more: call(path, argv, _with(env, site), **more))
    for name in ("posix_spawn", "posix_spawnp"):
        _replace(name, lambda call: lambda path, argv, env, **more: call(path, argv, _spawned(env, site), **more))
    execve = posix.execve
    _replace("execv", lambda call: lambda path, argv: execve(path, argv, _with(os.environ, site)))


def _split(pairs: Iterable[bytes]) -> Iterable[tuple[bytes, bytes, bytes]]:
    return (pair.partition(b"=") for pair in pairs)


def _replace(name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    call = getattr(posix, name, None)
    if call is not None:
        made = make(call)
        made.__name__ = made.__qualname__ = name
        setattr(posix, name, made)
        setattr(os, name, made)
        for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if call in able:
                able.add(made)


def _with(env: Any, site: str) -> Any:
    """`env` with `site` first on its PYTHONPATH; what is no environment is left for the system to refuse."""
    if not isinstance(env, Mapping) or _has(env, site):
        return env
    key: Any = os.fsencode(_KEY) if any(isinstance(name, bytes) for name in env) else _KEY
    old = os.fsdecode(env.get(key) or "")
    new = os.pathsep.join([site, *([old] if old else [])])
    return {**env, key: os.fsencode(new) if isinstance(key, bytes) else new}


def _spawned(env: Mapping[Any, Any] | None, site: str) -> Any:
    """As `_with`. From Python 3.13 on None is the environment of this process, and subprocess passes that."""
    inherited = env is None and sys.version_info >= (3, 13)
    return _with(os.environ, site) if inherited and not _has(os.environ, site) else _with(env, site)


def _has(env: Mapping[Any, Any], site: str) -> bool:
    for key in (_KEY, os.fsencode(_KEY)):
        try:
            value = env.get(key)
        except TypeError:  # os.environ takes no bytes
            continue
        if value and site in os.fsdecode(value).split(os.pathsep):
            return True
    return False
