"""A process of a disguised command: what the sitecustomize of `masquerade run` calls as the interpreter starts."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from mmap import mmap
from typing import Any

from masquerade.stage import heirs, log
from masquerade.stage.disguise import disguise, watch
from masquerade.stage.places import where_things_lie
from masquerade.watch.recorder import encoder, recorder


def _new_log(folder: str) -> mmap:
    """A log of this process in a file of its own: an exec keeps the pid, so the name has a number as well."""
    for number in range(1_000_000):
        path = os.path.join(folder, f"{os.getpid()}-{number}.log")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        os.ftruncate(fd, log.SIZE)
        memory = log.allocate(fd)
        os.close(fd)
        return memory
    raise OSError(f"no free name for a log in {folder}")


def start(folder: str) -> None:
    """Put on the disguise that `folder`/config.json describes and write to a log of this process's own."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config: dict[str, Any] = json.load(file)
    logs = os.path.join(folder, "logs")
    write = [log.writer(_new_log(logs))[0]]

    def append(event: bytes) -> bool:
        return write[0](event)

    def forked() -> None:
        write[0] = log.writer(_new_log(logs))[0]

    os.register_at_fork(after_in_child=forked)
    disguise(config["machine"], folder=config.get("tools", ""))
    joined = {"kind": "joined", "what": sys.executable or "python", "pid": os.getpid(), "facts": where_things_lie()}
    append(encoder()(joined).encode())
    heirs.install(os.path.join(folder, "site"))
    watch(recorder(append, {"now": "call"}), config["machine"], config.get("owners", {}))


def next_sitecustomize(ours: str) -> None:
    """Run the user's own sitecustomize, which ours stands before on the path."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != ours]
    # find_spec answers from sys.modules for a module that is loaded, and ours is being loaded now: ask the finders.
    spec = next((found for found in (_find(finder) for finder in sys.meta_path) if found is not None), None)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _find(finder: Any) -> Any:
    find_spec = getattr(finder, "find_spec", None)
    return find_spec("sitecustomize", None) if find_spec is not None else None
