"""Scans many modules on warm servers, and confirms what they say with forks of their own.

Every finding is confirmed: the first record that holds it is made again from a flat fork, and that one counts. Of the
clean records one in fifty is made again; where it does not agree, its whole chunk is, and the machine goes on without
the warm server.
"""

from __future__ import annotations

import queue
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from masquerade.stage import wire
from masquerade.stage.record import Record

if TYPE_CHECKING:
    from masquerade.stage.check import Check
    from masquerade.stage.client import Stage

#: Clean records that one confirmation speaks for.
CHUNK = 50

#: Fewer checks of one machine than this are not worth a warm server.
WORTH = 24

#: How often a machine's warm server may be spoilt by a module before the rest is done without one.
RESTARTS = 40


@dataclass
class Agreement:
    """How often flat forks confirmed what warm servers said, and where they did not."""

    confirmed: int = 0
    differed: list[str] = field(default_factory=list)


def keys(record: Record) -> frozenset[tuple[str, str, str]]:
    """What two records of one check must share."""
    return frozenset((finding.kind, finding.what, str(finding.blame)) for finding in record.findings)


def groups(checks: Sequence[Check], shards: int) -> list[list[Check]]:
    """Checks that one warm server can do: import checks alike in all but their module, cut into `shards` rows each."""
    alike: dict[Any, list[Check]] = defaultdict(list)
    for check in checks:
        alike[check.signature()].append(check)
    out = []
    for row in alike.values():
        size = -(-len(row) // max(1, shards))
        out += [row[start : start + size] for start in range(0, len(row), size)]
    return out


class Worker:
    """One warm server and one flat server, working through one group."""

    def __init__(self, stage: Stage, number: int, agreement: Agreement, put: Callable[[Record], None]) -> None:
        self.stage, self.number, self.agreement, self.put = stage, number, agreement, put
        self.confirmed: set[tuple[str, str, str]] = set()
        self.doubtful: set[tuple[str, str, str]] = set()
        self.chunk: list[tuple[Check, Record]] = []

    def work(self, group: Sequence[Check]) -> None:
        """Do all checks of a group."""
        refused: set[str] = set()
        left, restarts, trusted = list(group), 0, True
        while left and trusted and restarts <= RESTARTS:
            server = self.stage.warm_server(left[0], sorted(refused))
            try:
                spoilt = self._on(server, left)
            finally:
                server.close()
            if spoilt == _DISTRUST:
                trusted = False
            elif spoilt:
                refused.add(spoilt)
                restarts += 1
        for check in left:
            self.put(self.flat(check))
        self._release()

    def _on(self, server: Any, left: list[Check]) -> str:
        """Work on one warm server until all is done ("") or it is spoilt: gives the module to refuse."""
        while left:
            check = left[0]
            try:
                wire.send(server.socket, self.stage.request(check))
                reply = wire.receive(server.socket)
            except (wire.WireError, OSError):
                reply = None
            left.pop(0)
            if reply is None:
                self.put(self.flat(check))
                return check.subject
            if not self._take(check, reply, server.facts):
                return _DISTRUST
            spoilt = str(reply.get("spoilt_by") or "")
            if spoilt:
                return spoilt
        return ""

    def _take(self, check: Check, reply: dict[str, Any], facts: dict[str, Any]) -> bool:
        """Use a warm server's reply. False when it proved wrong about a clean module."""
        closing = str(reply.get("closing") or "")
        if '"flat":true' in closing or '"flat":' not in closing:
            # It needs a module that only comes with another one, or it did not come to its end.
            self.put(self.flat(check))
            return True
        record = self.stage.record(check, reply, facts)
        found = keys(record)
        if not found:
            self.chunk.append((check, record))
            return len(self.chunk) < CHUNK or self._release()
        if found <= self.confirmed and not found & self.doubtful:
            self.put(record)
            return True
        flat = self.flat(check)
        if self._agree(check, flat, record):
            self.confirmed |= found
        else:
            self.doubtful |= found | keys(flat)
        self.put(flat)
        return True

    def flat(self, check: Check) -> Record:
        return self.stage.flat(check, self.number)

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


_DISTRUST = "\0distrust"


def run(stage: Stage, checks: Sequence[Check], agreement: Agreement) -> Iterator[Record]:
    """Run `checks` on `stage.jobs` workers; records come as they are ready."""
    machines = len({check.machine.id for check in checks}) or 1
    rows = groups(checks, max(1, stage.jobs // machines))
    work: queue.SimpleQueue[list[Check]] = queue.SimpleQueue()
    for row in rows:
        work.put(row)
    done: queue.SimpleQueue[Record | BaseException | None] = queue.SimpleQueue()
    workers = min(stage.jobs, len(rows))

    def loop(number: int) -> None:
        try:
            while True:
                try:
                    row = work.get_nowait()
                except queue.Empty:
                    break
                Worker(stage, number, agreement, done.put).work(row)
        except BaseException as error:
            done.put(error)
        done.put(None)

    stage.start(workers)
    threads = [threading.Thread(target=loop, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        while workers:
            item = done.get()
            if item is None:
                workers -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        while not work.empty():
            work.get_nowait()
