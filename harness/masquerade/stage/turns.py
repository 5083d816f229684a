"""Which check comes next: a server goes on with the machine that it wears, so that the disguise is put on once."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from masquerade.stage.check import Check

#: A check and how often it was tried.
Turn = tuple[Check, int]


class Turns:
    """Checks that wait, in rows of one machine; within a row, and from one row to the next, in the order given."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self._rows: dict[Hashable, deque[Turn]] = {}
        self._at: dict[Hashable, Hashable] = {}
        for check in checks:
            self._rows.setdefault(worn(check), deque()).append((check, 0))

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def take(self, server: Hashable) -> Turn:
        """The next check for `server`: of the machine that it wears, else of one that no other server is at.

        Where all are taken it helps with the longest row. Raises IndexError where nothing waits.
        """
        key = self._at.get(server)
        if key not in self._rows:
            others = {at for name, at in self._at.items() if name != server}
            key = next((row for row in self._rows if row not in others), None)
            if key is None:
                key = max(self._rows, key=lambda row: len(self._rows[row]), default=None)
            if key is None:
                raise IndexError("no check waits")
        self._at[server] = key
        turn = self._rows[key].popleft()
        if not self._rows[key]:
            del self._rows[key]
        return turn

    def again(self, check: Check, tries: int) -> None:
        """Put a check back before all others of its machine."""
        self._rows.setdefault(worn(check), deque()).appendleft((check, tries))

    def more(self, check: Check) -> bool:
        """Whether another check waits that wears what this one does."""
        return worn(check) in self._rows


def worn(check: Check) -> Hashable:
    """What two checks must share to be made by one server that wears a machine."""
    owners = tuple((owner, tuple(names)) for owner, names in check.owners.items())
    installed = (tuple(check.present), tuple(check.absent), tuple(check.stand_ins.items()))
    begun = (check.first, check.path) if check.first else ()
    return check.machine.id, tuple(check.env.items()), owners, installed, begun
