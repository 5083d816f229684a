"""The event log: whatever writes to it or spoils it, reading tells all that is there and never fails."""

from __future__ import annotations

import os
import signal
import threading
import tracemalloc
from binascii import crc32
from collections.abc import Iterator
from mmap import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.stage import log


@pytest.fixture
def memory() -> Iterator[mmap]:
    with log.allocate() as memory:
        yield memory


def slot(event: int, part: int, parts: int, piece: bytes) -> bytes:
    """A slot with a right checksum and any numbers."""
    return log.HEADER.pack(log.MAGIC, event, part, parts, len(piece), crc32(piece)) + piece


def test_events_come_back_in_their_order(memory: mmap) -> None:
    append, close = log.writer(memory)
    events = [b"", b"a", b"x" * log.PAYLOAD, b"y" * (log.PAYLOAD + 1), os.urandom(100_000), b"end"]
    assert all(append(event) for event in events)
    assert not log.closed(memory)
    assert log.read(memory) == (tuple(events), None, 0, False)
    assert close(b"closing") and log.closed(memory)
    assert log.read(memory) == (tuple(events), b"closing", 0, False)


def test_a_closing_record_may_be_replaced_by_a_longer_or_shorter_one(memory: mmap) -> None:
    _, close = log.writer(memory)
    for record in (b"one", b"two" * 5000, b""):
        assert close(record)
        assert log.read(memory).closing == record


def test_a_closing_record_over_the_limit_is_refused(memory: mmap) -> None:
    _, close = log.writer(memory)
    assert not close(bytes(log.CLOSING_SLOTS * log.PAYLOAD + 1))
    assert log.read(memory).closing is None
    assert close(bytes(log.CLOSING_SLOTS * log.PAYLOAD))


def test_threads_write_at_once(memory: mmap) -> None:
    append, _ = log.writer(memory)

    def write(name: int) -> None:
        for number in range(300):
            append(b"%d:%d:" % (name, number) + b"z" * (number * 7))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    contents = log.read(memory)
    seen = [tuple(event.split(b":")[:2]) for event in contents.events]
    assert len(seen) == 2400 and contents.damaged == 0
    for name in range(8):
        assert [int(number) for who, number in seen if int(who) == name] == list(range(300))


def test_a_signal_handler_writes_in_the_middle_of_a_write(memory: mmap) -> None:
    append, _ = log.writer(memory)
    handled = 0

    def handler(*_: object) -> None:
        nonlocal handled
        handled += 1
        append(b"signal" * 200)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for _ in range(4000):
            append(b"main" * 300)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    contents = log.read(memory)
    assert handled > 5 and contents.damaged == 0 and not contents.full
    assert contents.events.count(b"signal" * 200) == handled
    assert contents.events.count(b"main" * 300) == 4000


def in_forks(count: int, work) -> list[int]:
    """Run `work(number)` in `count` processes at once; their exit statuses."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                work(number)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_forked_processes_write_beside_each_other(memory: mmap) -> None:
    append, close = log.writer(memory)
    append(b"parent")

    def work(number: int) -> None:
        for step in range(50):
            assert append(b"%d:%d" % (number, step))
        assert not close(b"forged"), "the closing record is the child's alone"

    assert in_forks(6, work) == [0] * 6
    append(b"parent again")
    contents = log.read(memory)
    assert sorted(contents.events) == sorted(
        [b"parent", b"parent again", *(b"%d:%d" % (n, s) for n in range(6) for s in range(50))]
    )
    assert contents.closing is None and contents.damaged == 0


def test_more_forks_than_regions_leave_a_mark(memory: mmap) -> None:
    append, _ = log.writer(memory)
    statuses = in_forks(log.FORK_REGIONS + 4, lambda number: os._exit(0 if append(b"here") else 9))
    contents = log.read(memory)
    assert statuses.count(9) == 4 and contents.full
    assert contents.events == (b"here",) * log.FORK_REGIONS


def test_a_full_log_says_so_and_still_takes_the_closing_record(memory: mmap) -> None:
    append, close = log.writer(memory)
    assert all(append(b"flood") for _ in range(log.MAIN_SLOTS - 2))
    assert not append(b"one too many")
    assert close(b"the end")
    contents = log.read(memory)
    assert contents.full and contents.closing == b"the end"
    assert len(contents.events) == log.MAIN_SLOTS - 2 and contents.damaged == 0


def test_an_event_larger_than_the_log_is_lost_and_said_to_be(memory: mmap) -> None:
    append, _ = log.writer(memory)
    assert not append(bytes(70_000 * log.PAYLOAD))
    assert log.read(memory).full


def test_a_spoilt_slot_costs_its_own_event_alone(memory: mmap) -> None:
    append, _ = log.writer(memory)
    for event in (b"first", b"second", b"long" * 400, b"last"):
        append(event)
    memory[2 * log.SLOT + log.HEADER.size] ^= 1  # a bit of the second event
    memory[4 * log.SLOT : 4 * log.SLOT + 4] = b"junk"  # a part of the long one
    contents = log.read(memory)
    assert contents.events == (b"first", b"last")
    assert contents.damaged >= 2


def test_a_thread_that_died_before_filling_its_slot_hides_nothing(memory: mmap) -> None:
    append, _ = log.writer(memory)
    for number in range(5):
        append(b"%d" % number)
    memory[2 * log.SLOT : 3 * log.SLOT] = bytes(log.SLOT)
    assert log.read(memory).events == (b"0", b"2", b"3", b"4")


def test_the_writer_needs_nothing_that_a_subject_can_reach(memory: mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    append, close = log.writer(memory)
    for name in ("HEADER", "MAGIC", "SLOT", "PAYLOAD", "crc32", "os", "itertools", "_region", "_slot"):
        monkeypatch.delattr(log, name)
    with monkeypatch.context() as patch:
        for name in ("len", "range", "min", "bytes"):
            patch.delattr(f"builtins.{name}")
        done = append(b"still" * 300), close(b"told")
    monkeypatch.undo()
    assert done == (True, True)
    assert log.read(memory)[:2] == ((b"still" * 300,), b"told")


def test_a_bomb_of_announced_parts_takes_no_memory(memory: mmap) -> None:
    for number in range(1, 3000):
        made = slot(number, 0, 65_535, b"")
        memory[number * log.SLOT : number * log.SLOT + len(made)] = made
    tracemalloc.start()
    contents = log.read(memory)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert contents.events == () and contents.damaged == 2999
    assert peak < 20 << 20


PLACES = st.sampled_from([0, 1, 2, 3, 9, log.MAIN_SLOTS - 1, log.MAIN_SLOTS, log.MAIN_SLOTS + 1]) | st.integers(
    0, log.SIZE // log.SLOT - 1
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=log.SLOT)), max_size=20))
def test_any_bytes_are_read_without_an_error(junk: list[tuple[int, bytes]]) -> None:
    with log.allocate() as memory:
        append, close = log.writer(memory)
        append(b"before" * 200)
        close(b"closing")
        for place, piece in junk:
            memory[place * log.SLOT : place * log.SLOT + len(piece)] = piece
        contents = log.read(memory)
        log.closed(memory)
    assert contents.damaged >= 0


PARTS = st.integers(0, 65_535)
SLOTS = st.tuples(PLACES, st.integers(0, 5), PARTS, PARTS, st.binary(max_size=log.PAYLOAD))


@settings(max_examples=300, deadline=None)
@given(st.lists(SLOTS, max_size=20))
def test_any_well_formed_slots_are_read_without_an_error(slots: list[tuple[int, int, int, int, bytes]]) -> None:
    with log.allocate() as memory:
        for place, event, part, parts, piece in slots:
            made = slot(event, part, parts, piece)
            memory[place * log.SLOT : place * log.SLOT + len(made)] = made
        contents = log.read(memory)
    assert all(isinstance(event, bytes) for event in contents.events)
