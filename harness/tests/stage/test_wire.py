"""Frames: what is whole arrives, and what is not is named instead of being waited for or believed."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.stage import wire

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        yield ours, theirs


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.text(), JSON), max_size=4))
def test_messages_arrive_as_they_were_sent(messages: list[dict[str, object]]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in messages:
            wire.send(theirs, message)
        theirs.close()
        assert [wire.receive(ours) for _ in messages] == messages
        assert wire.receive(ours) is None


def test_a_large_message_arrives_in_pieces(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    message = {"events": ["x" * 1000] * 20_000}
    sender = threading.Thread(target=wire.send, args=(theirs, message))
    sender.start()
    assert wire.receive(ours) == message
    sender.join()


@pytest.mark.parametrize("kept", [1, 3, 4, 5, 20])
def test_a_truncated_frame_is_named(pair: tuple[socket.socket, socket.socket], kept: int) -> None:
    ours, theirs = pair
    theirs.sendall(frame(b'{"id": "something long"}')[:kept])
    theirs.close()
    with pytest.raises(wire.WireError, match="the connection broke off"):
        wire.receive(ours)


def test_an_oversized_frame_is_refused_before_it_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall((wire.LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(wire.WireError, match=f"announces {wire.LIMIT + 1} bytes, over the limit of {wire.LIMIT}"):
        wire.receive(ours)


def test_an_oversized_message_is_not_sent(pair: tuple[socket.socket, socket.socket], monkeypatch) -> None:
    ours, theirs = pair
    monkeypatch.setattr(wire, "LIMIT", 100)
    with pytest.raises(wire.WireError, match="a message of 111 bytes is over the limit of 100"):
        wire.send(theirs, {"m": "x" * 102})
    theirs.close()
    assert wire.receive(ours) is None


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1]", b"3", b"null", b'"text"', b"\0" * 9, b"[" * 200_000])
def test_junk_is_named(pair: tuple[socket.socket, socket.socket], body: bytes) -> None:
    ours, theirs = pair
    sender = threading.Thread(target=theirs.sendall, args=(frame(body),))
    sender.start()
    with pytest.raises(wire.WireError, match="a frame is not"):
        wire.receive(ours)
    sender.join()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(junk: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(junk)
        theirs.close()
        try:
            message = wire.receive(ours)
        except wire.WireError:
            return
    assert message is None or message == json.loads(junk[4 : 4 + int.from_bytes(junk[:4], "big")])
