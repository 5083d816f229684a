"""Scans many modules by traces and trees, and confirms what they say with forks of their own.

A finding is confirmed: the first record that holds it, on whichever machine, is made again from a flat fork, and that
one counts. Once twenty were confirmed and none denied, one new finding in ten is; of the records with findings that are
known already one in two hundred is. Of the clean records one in fifty is made again; where it does not agree, its whole
chunk is, and the rest is done without what said so: after a trace by trees, after a tree by forks.
"""

from __future__ import annotations

import queue
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from masquerade.stage import wire
from masquerade.stage.check import SILENCE
from masquerade.stage.record import Record
from masquerade.watch.reads import unpacked

if TYPE_CHECKING:
    from masquerade.stage.check import Check
    from masquerade.stage.client import Stage

#: What a finding is told by: kind, what, and the blamed line.
Key = tuple[str, str, str]

#: Clean records that one confirmation speaks for.
CHUNK = 50

#: So many findings are confirmed before one in `ONE_IN` is.
SURE, ONE_IN = 20, 10

#: Of so many records whose findings are all known one is made again.
KNOWN_ONE_IN = 200

#: Fewer checks of one machine than this are not worth a tree.
WORTH = 24

#: So many are worth two traces, from which each of them is played.
WORTH_A_TRACE = 300

#: How often a trace may be cut down by its subjects before trees take its place.
RETRACED = 3

#: How often a tree may be cut down by its subjects before the rest is done without one.
REGROWN = 40


@dataclass
class Agreement:
    """How often flat forks confirmed what trees said, and where they did not. The findings of the one and the other."""

    confirmed: int = 0
    differed: list[str] = field(default_factory=list)
    known: set[Key] = field(default_factory=set)
    doubtful: set[Key] = field(default_factory=set)

    def trusted(self, check: str) -> bool:
        """Whether a new finding of `check` is taken as it is."""
        return self.confirmed >= SURE and not self.differed and random.Random(check).randrange(ONE_IN) > 0


def keys(record: Record) -> frozenset[Key]:
    """What two records of one check must share."""
    return frozenset((finding.kind, finding.what, str(finding.blame)) for finding in record.findings)


def groups(checks: Sequence[Check], shards: int) -> list[list[Check]]:
    """Checks that one tree can do: import checks alike in all but their module, cut into `shards` rows each."""
    alike: dict[Any, list[Check]] = defaultdict(list)
    for check in checks:
        alike[check.signature()].append(check)
    out = []
    for row in alike.values():
        size = -(-len(row) // max(1, shards))
        out += [row[start : start + size] for start in range(0, len(row), size)]
    return out


class Worker:
    """One tree after another on one server; what they say is confirmed on another."""

    def __init__(
        self, stage: Stage, servers: tuple[int, int], agreement: Agreement, put: Callable[[Record], None]
    ) -> None:
        self.stage, self.agreement, self.put = stage, agreement, put
        self.tree, self.flat_server = servers
        self.chunk: list[tuple[Check, Record]] = []
        #: What a process of the tree had read when it was begun, in parts that others share.
        self._read: dict[str, tuple[tuple[str, ...], ...]] = {}

    def work(self, group: Sequence[Check]) -> None:
        """Do all checks of a group."""
        left = {check.id: check for check in group}
        for _ in range(RETRACED):
            if len(left) < WORTH_A_TRACE or not self._may_be_traced(left) or self._trace(left):
                break
        for _ in range(REGROWN):
            before = len(left)
            if not left or not self._grow(left) or len(left) == before:
                break
        self._release()
        for check in left.values():
            self.put(self.flat(check))

    def _may_be_traced(self, left: Mapping[str, Check]) -> bool:
        """Whether what a trace cannot see or count does not matter to these checks."""
        check = next(iter(left.values()))
        return check.machine.platform != "here" and not check.measure and not check.memory

    def _trace(self, left: dict[str, Check]) -> bool:
        """Take the replies that two traces agree on, made in opposite orders: what is answered leaves `left`.

        What one module leaves behind for another shows in one of the orders alone. False where a trace broke off. Where
        the first has nothing that the second could agree with, no second is made.
        """
        digests: dict[str, str] = {}

        def compared(reply: Mapping[str, Any]) -> bool:
            digests.update(reply.get("digests") or {})
            return True

        def taken(reply: Mapping[str, Any]) -> bool:
            if "part" in reply:
                self._read[str(reply["part"])] = (unpacked(reply.get("reads")),)
            name = str(reply.get("id"))
            if name not in left or digests.get(name) != reply.get("digest"):
                return True
            check = left.pop(name)
            return self._take(check, self._record(check, reply, self.stage.server(self.tree).facts))

        backward = [*reversed(left.values())]
        if not self._traced(left, backward, True, compared):
            return False
        return not digests or self._traced(left, [*left.values()], False, taken)

    def _traced(
        self,
        left: dict[str, Check],
        checks: Sequence[Check],
        digests: bool,
        take: Callable[[Mapping[str, Any]], bool],
    ) -> bool:
        """Have `checks` traced, in that order. False where a check ended it, or where it is not to be believed."""
        at = ""

        def each(reply: Mapping[str, Any]) -> bool:
            nonlocal at
            at = str(reply.get("busy", at))
            return take(reply)

        request = {**self.stage.request(checks[0]), "digests": digests}
        items = [[check.id, check.subject] for check in checks]
        heard = self._hear({"trace": request, "items": items}, checks[0].timeout, each)
        if heard is None:
            self._flat_if_lost(left, at)
        return heard is not None

    def _grow(self, left: dict[str, Check]) -> bool:
        """Take the replies of one tree: what it answers leaves `left`, and so does a check that ended a part of it.

        False where the tree proved wrong about a clean module.
        """
        self._read.clear()
        first, facts, at = next(iter(left.values())), self.stage.server(self.tree).facts, ""

        def take(reply: Mapping[str, Any]) -> bool:
            nonlocal at
            if "at" in reply:
                self._flat_if_lost(left, at)
                at = str(reply["at"])
            elif "flat" in reply:
                self._flat_if_lost(left, str(reply["flat"]))
            elif "above" in reply:
                above = self._read.get(str(reply["above"]), ())
                self._read[str(reply.get("base"))] = (*above, unpacked(reply.get("reads")))
            elif (check := left.pop(str(reply.get("id")), None)) is not None:
                return self._take(check, self._record(check, reply, facts))
            return True

        items = [[check.id, check.subject] for check in left.values()]
        # Between two of a tree's frames at most one beginning is made, or one check.
        heard = self._hear({"tree": self.stage.request(first), "items": items}, first.timeout, take)
        if heard is not False:
            self._flat_if_lost(left, at)
        return heard is not False

    def _hear(self, asked: dict[str, Any], timeout: float, take: Callable[[Mapping[str, Any]], bool]) -> bool | None:
        """Ask the server and hand its replies to `take` until the last one, with `timeout` seconds between two.

        False where `take` wants no more of them, None where the server was lost: both times it is replaced.
        """
        server = self.stage.server(self.tree)
        heard: bool | None = None
        with suppress(wire.WireError, OSError):
            server.socket.settimeout(timeout + SILENCE)
            wire.send(server.socket, asked)
            while (reply := wire.receive(server.socket)) is not None:
                if reply.get("done"):
                    server.socket.settimeout(None)
                    return True
                if not take(reply):
                    heard = False
                    break
        self.stage.replace(server)
        return heard

    def _record(self, check: Check, reply: Mapping[str, Any], facts: Mapping[str, Any]) -> Record:
        record = self.stage.record(check, reply, facts)
        if record.reads is None:
            return record
        shared = reply.get("parts") or [reply.get("base")]
        return replace(
            record, reads=(*(part for name in shared for part in self._read.get(str(name), ())), *record.reads)
        )

    def _flat_if_lost(self, left: dict[str, Check], at: str) -> None:
        """A check that was begun and not answered ended the process above it."""
        if at in left:
            self.put(self.flat(left.pop(at)))

    def _take(self, check: Check, record: Record) -> bool:
        found = keys(record)
        if not found:
            self.chunk.append((check, record))
            return len(self.chunk) < CHUNK or self._release()
        known = found <= self.agreement.known and not found & self.agreement.doubtful
        if (known and random.Random(f"again {check.id}").randrange(KNOWN_ONE_IN)) or self.agreement.trusted(check.id):
            self.agreement.known |= found
            self.put(record)
            return True
        flat = self.flat(check)
        if self._agree(check, flat, record):
            self.agreement.known |= found
        else:
            self.agreement.doubtful |= found | keys(flat)
        self.put(flat)
        return True

    def flat(self, check: Check) -> Record:
        return self.stage.flat(check, self.flat_server)

    def _agree(self, check: Check, flat: Record, record: Record) -> bool:
        same = keys(flat) == keys(record) and flat.verdict == record.verdict
        if same:
            self.agreement.confirmed += 1
        else:
            self.agreement.differed.append(check.id)
        return same

    def _release(self) -> bool:
        """Confirm one of the chunk's clean records and let all go; False, and all made again, if it does not agree."""
        if not self.chunk:
            return True
        place = random.Random(self.chunk[0][0].id).randrange(len(self.chunk))
        check, record = self.chunk[place]
        good = self._agree(check, self.flat(check), record)
        for check, record in self.chunk:
            self.put(record if good else self.flat(check))
        self.chunk.clear()
        return good


def run(stage: Stage, checks: Sequence[Check], agreement: Agreement) -> Iterator[Record]:
    """Run `checks` on `stage.jobs` workers; records come as they are ready."""
    machines = len({check.machine.id for check in checks}) or 1
    rows = groups(checks, max(1, stage.jobs // machines))
    work: queue.SimpleQueue[list[Check]] = queue.SimpleQueue()
    for row in rows:
        work.put(row)
    done: queue.SimpleQueue[Record | BaseException | None] = queue.SimpleQueue()
    workers = running = min(stage.jobs, len(rows))

    def loop(number: int) -> None:
        try:
            while True:
                try:
                    row = work.get_nowait()
                except queue.Empty:
                    break
                Worker(stage, (number, number + workers), agreement, done.put).work(row)
        except BaseException as error:
            done.put(error)
        done.put(None)

    agreement.known.clear()
    agreement.doubtful.clear()
    stage.start(2 * workers)
    threads = [threading.Thread(target=loop, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        while running:
            item = done.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        while not work.empty():
            work.get_nowait()
        if running:
            # Somebody stopped asking: what is under way goes with the question.
            stage.drop_servers()
            for thread in threads:
                thread.join(SILENCE)
