"""Frames between the tool and its server: four bytes of length, then JSON. Size-limited, never pickle."""

from __future__ import annotations

import json
import socket
from typing import Any

LIMIT = 256 * 1024 * 1024


class WireError(RuntimeError):
    """The other end broke off in the middle of a frame, or sent what is no frame."""


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    """`size` bytes; None at a clean end before the first."""
    pieces: list[bytes] = []
    left = size
    while left:
        piece = sock.recv(min(left, 1 << 20))
        if not piece:
            if left == size:
                return None
            raise WireError(f"the connection broke off with {left} of {size} bytes missing")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    """Send one frame. Raises WireError for a message over the limit, OSError when nobody listens."""
    body = json.dumps(message).encode()
    if len(body) > LIMIT:
        raise WireError(f"a message of {len(body)} bytes is over the limit of {LIMIT}")
    sock.sendall(len(body).to_bytes(4, "big") + body)


def receive(sock: socket.socket) -> dict[str, Any] | None:
    """The next frame; None when the other end is gone. Raises WireError for a broken one."""
    head = _exactly(sock, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > LIMIT:
        raise WireError(f"a frame announces {size} bytes, over the limit of {LIMIT}")
    body = _exactly(sock, size)
    if body is None:
        raise WireError("the connection broke off after a frame's length")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise WireError("a frame is not a JSON object")
    return message
