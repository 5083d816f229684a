"""Answers as text that all machines of a kind share: nothing in it names a card, a host, a person or a moment."""

from __future__ import annotations

import re
import socket

#: Characters kept of one answer.
LIMIT = 2000

_RULES = (
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]\b"), "<bus id>"),
    (re.compile(r"\b(pci_(?:bus|device|domain)_id)=\d+"), r"\1=<number>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "<address>"),
    (re.compile(r"\bat \.\./\S+?:\d+"), "at <source>"),
    # Folders of this host; device nodes are the same everywhere.
    (re.compile(r"(?<![\w./:<])/(?!dev/)(?:[^/\s:'\"()]+/)+"), "<folder>/"),
)
#: Where in torch's sources a warning comes from: builds have other folders.
_WHERE = re.compile(r" ?\(Triggered internally at [^)]*\)")
#: The C++ stack that some errors of torch carry differs between builds.
_STACK = re.compile(r"\n?Exception raised from .*", re.S)


def text(value: str) -> str:
    """`value` without what differs from card to card and from host to host."""
    value = _WHERE.sub("", _STACK.sub("", value))
    for pattern, replacement in _RULES:
        value = pattern.sub(replacement, value)
    host = socket.gethostname()
    # A host that is called `cuda` or `worker` has a name that says nothing, and that answers hold anyway.
    if len(host) > 4 and re.search(r"[\d.-]", host):
        value = re.sub(rf"\b{re.escape(host)}\b", "<host>", value)
    return value if len(value) <= LIMIT else value[:LIMIT] + f"... {len(value)} characters"


def answer(value: object) -> str:
    """The repr of a value, as text()."""
    return text(repr(value))


def type_name(value: object) -> str:
    """The type's name, with its module where it is none of Python's own."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def error(caught: BaseException) -> dict[str, str]:
    """An exception as an answer."""
    return {"error": type_name(caught), "message": text(str(caught)).strip()}
