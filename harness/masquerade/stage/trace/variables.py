"""What bodies leave for others beside their modules: variables of the environment, and operators of torch."""

from __future__ import annotations

import os
import sys
from binascii import crc32
from collections import deque
from collections.abc import Iterator
from typing import Any

from masquerade.stage.trace.tracer import Tracer
from masquerade.watch.audit import listen


def now() -> dict[str, int | None]:
    """The checksums of all variables."""
    return {os.fsdecode(name): crc32(value) for name, value in os.environb.items()}


def install(tracer: Tracer) -> None:
    """See who sets them, and who looks at them."""
    _environment(tracer)
    torch = sys.modules.get("torch")
    if torch is not None:
        _operators(tracer, torch)


def _environment(tracer: Tracer) -> None:
    state, getframe, checksum = tracer.state, sys._getframe, crc32
    decode, encode = os.fsdecode, os.fsencode

    def put(args: tuple[Any, ...]) -> None:
        state("set", decode(args[0]), checksum(args[1]), getframe(1))

    def unset(args: tuple[Any, ...]) -> None:
        state("set", decode(args[0]), None, getframe(1))

    listen({"os.putenv": put, "os.unsetenv": unset})
    environ: Any = type(os.environ)
    get, every, delete = environ.__getitem__, environ.__iter__, environ.__delitem__
    told: deque[Any] = deque()
    environ_bytes: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]

    def named(key: Any) -> Any:
        return decode(key) if isinstance(key, bytes) else key

    def __getitem__(mapping: Any, key: Any) -> Any:
        try:
            value = get(mapping, key)
        except KeyError:
            state("get", named(key), None, getframe(1))
            raise
        if told and told[0] == key:  # who takes them all does not ask for this one
            told.popleft()
        else:
            state("get", named(key), checksum(encode(value)), getframe(1))
        return value

    def __delitem__(mapping: Any, key: Any) -> None:
        raw = environ_bytes.get(encode(key)) if isinstance(key, str | bytes) else None
        state("get", named(key), raw if raw is None else checksum(raw), getframe(1))
        delete(mapping, key)

    def __iter__(mapping: Any) -> Iterator[Any]:
        told.clear()
        for key in every(mapping):
            told.append(key)
            yield key

    environ.__getitem__, environ.__iter__, environ.__delitem__ = __getitem__, __iter__, __delitem__


def _operators(tracer: Tracer, torch: Any) -> None:
    """`torch.ops.space.name` is made when it is first asked for, and then kept; here it is asked for each time."""
    state, getframe = tracer.state, sys._getframe
    space, library = torch._ops._OpNamespace, torch.library.Library
    make, every, define = space.__getattr__, space.__iter__, library.define
    made: dict[tuple[int, str], Any] = {}
    taken: deque[tuple[int, str]] = deque(maxlen=1)
    under_way: list[tuple[str, str]] = []

    def __getattr__(self: Any, name: str) -> Any:
        key = id(self), name
        try:
            if key not in made:
                made[key] = make(self, name)
                self.__dict__.pop(name, None)
        except AttributeError:
            if (self.name, name) not in under_way:  # who defines it looks whether it is there
                state("get", ("operator", self.name, name), None, getframe(1))
            raise
        if taken and taken[0] == key:  # who takes them all does not ask for this one
            taken.clear()
        else:
            state("get", ("operator", self.name, name), 1, getframe(1))
        return made[key]

    def __iter__(self: Any) -> Iterator[str]:
        for name in every(self):
            taken.append((id(self), name))
            yield name

    def defined(self: Any, schema: str, *args: Any, **kwargs: Any) -> Any:
        name = str(schema).partition("(")[0].partition(".")[0].strip().rpartition("::")[2]
        under_way.append((self.ns, name))
        try:
            out = define(self, schema, *args, **kwargs)
        except BaseException:
            tracer.unsteady(f"it cannot define {self.ns}::{name}, which may be there already")
            raise
        finally:
            under_way.pop()
        state("set", ("operator", self.ns, name), 1, getframe(1))
        return out

    space.__getattr__, space.__iter__, library.define = __getattr__, __iter__, defined
