"""Imports that are made ahead of their turn, for modules that would all come to them, each by another way.

What a module surely executes is read from its source: the imports at its head, those at the heads of these, and so on.
Where many modules surely execute the same one, a process makes it once for all of them. Each then has what it would
have anyway; only the order differs. `masquerade.stage.overtaken` tells for whom that makes a difference.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from masquerade.stage.steps import loaded
from masquerade.stage.units import Source

#: So many modules are worth a look whether they share what comes later.
FEW = 4

#: Bytes of source that a process executes for others, before it is worth the process: at the least, and for each byte
#: of memory beyond what a small process has, which a fork has to go through.
_WORTH, _FOR_MEMORY, _SMALL = 100_000, 1 / 3000, 300 << 20

#: Modules of one way at the most; what is behind them is not looked for.
_MOST = 4000

#: So many imports that could not be made ahead are tried at one place.
_TRIES = 8


class Came(NamedTuple):
    """Where an import statement that leads to a module stands."""

    importer: str
    line: int


class Way(NamedTuple):
    """How a module comes to another: all that it surely begins before, in that order, and the import statements."""

    before: tuple[str, ...]
    rows: tuple[Came, ...]
    #: The line of the module that leads to the other; 0 where a package above it does.
    line: int


class Ahead:
    """What modules surely execute, by their sources. `source` gives that of a module; nothing is executed."""

    def __init__(self, source: Callable[[str], Source]) -> None:
        self._source = source
        self._sizes: dict[str, int] = {}
        #: What each module leads to, and executes in the end, at the place that this process is at.
        self._next: dict[str, list[str]] = {}
        self._executes: dict[str, frozenset[str]] = {}
        self._loaded: dict[str, bool] = {}
        #: What was made for others here, and what could not be made.
        self._made: set[str] = set()
        self._failed: set[str] = set()
        self._tries = 0
        self._priced: float | None = None

    def moved(self) -> None:
        """This process went on by a step: what is still ahead is less than before."""
        self._next.clear()
        self._executes.clear()
        self._loaded = {name: True for name, there in self._loaded.items() if there}
        self._made.clear()
        self._tries = 0
        self._priced = None

    def made(self, module: str, vain: bool) -> None:
        """Those that could go along with `module` did, or most could not: it is not chosen again here."""
        self._made.add(module)
        self._tries += vain

    def refuse(self, module: str, failed: Collection[str]) -> None:
        """`module` could not be imported ahead of its turn; `failed` are the modules below it whose import failed."""
        self._failed.update(failed or (module,))
        self._made.add(module)
        self._tries += 1

    def way(self, module: str, goal: str) -> Way:
        """The way of `module` to `goal`, of which it is known that it executes it; as things are here."""
        came = self._walk(module, goal)
        rows, at = [], goal
        while at != module and at in came and came[at].importer:
            rows.append(came[at])
            at = came[at].importer
        line = rows[-1].line if rows and at == module else 0
        return Way(tuple(name for name in came if name != goal), tuple(rows[::-1]), line)

    def _walk(self, module: str, goal: str) -> dict[str, Came]:
        out: dict[str, Came] = {}
        # Modules whose heads are still to be gone through, the innermost last.
        under_way: list[Any] = []

        def enter(name: str, came: Came) -> None:
            # The packages above come first: the last one that is put on the stack is gone through first.
            for part in reversed(_with_packages(name)):
                if part not in out and not self._is_loaded(part):
                    under_way.append((part, came))

        enter(module, Came("", 0))
        while under_way and goal not in out and len(out) < _MOST:
            top = under_way.pop()
            if isinstance(top[0], str):
                name, came = top
                if name not in out and not self._is_loaded(name):
                    out[name] = came
                    under_way.append((iter(self._source(name).units), name))
                continue
            units, name = top
            unit = next(units, None)
            if unit is not None:
                under_way.append(top)
                enter(unit.module, Came(name, unit.line))
        return out

    def executes(self, module: str) -> frozenset[str]:
        """All that `module` surely executes here, itself too."""
        found = self._executes.get(module)
        if found is None:
            self._close(module)
            found = self._executes[module]
        return found

    def _close(self, start: str) -> None:
        """Fill `_executes` for `start` and all that it leads to: modules that import each other execute the same."""
        number: dict[str, int] = {}
        lowest: dict[str, int] = {}
        open_: list[str] = []
        calls: list[tuple[str, Iterator[str]]] = []

        def begin(name: str) -> None:
            number[name] = lowest[name] = len(number)
            open_.append(name)
            calls.append((name, iter(self._leads_to(name))))

        begin(start)
        while calls:
            name, rest = calls[-1]
            other = next(rest, None)
            if other is not None:
                if other in self._executes:
                    continue
                if other not in number:
                    begin(other)
                else:
                    lowest[name] = min(lowest[name], number[other])
                continue
            calls.pop()
            if calls:
                above = calls[-1][0]
                lowest[above] = min(lowest[above], lowest[name])
            if lowest[name] == number[name]:
                members = open_[open_.index(name) :]
                del open_[-len(members) :]
                found = set(members)
                for member in members:
                    for other in self._leads_to(member):
                        found.update(self._executes.get(other, ()))
                whole = frozenset(found)
                self._executes.update(dict.fromkeys(members, whole))

    def _leads_to(self, name: str) -> list[str]:
        """The modules that are not executed yet and that the head of module `name`, or its package, asks for."""
        found = self._next.get(name)
        if found is None:
            asked = {part: None for unit in self._source(name).units for part in _with_packages(unit.module)}
            asked |= dict.fromkeys(_with_packages(name)[:-1])
            found = self._next[name] = [other for other in asked if not self._is_loaded(other)]
        return found

    def _is_loaded(self, name: str) -> bool:
        found = self._loaded.get(name)
        if found is None:
            found = self._loaded[name] = loaded(name)
        return found

    def best(self, turn: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
        """The module that is worth most to execute now, and the modules that it is for; "" without one.

        `turn` gives what would come next for each module: those alike in that share it anyway.
        """
        if self._tries >= _TRIES or len(set(turn.values()) - {None}) < 2:
            return "", frozenset()
        turns: dict[str, set[Any]] = defaultdict(set)
        counts: Counter[str] = Counter()
        sets = {module: self.executes(module) for module in turn}
        for module, found in sets.items():
            own = turn[module]
            counts.update(found)
            for name in found:
                turns[name].add(own)
        best, most = "", _WORTH + self._price()
        weights: dict[frozenset[str], int] = {}
        for name, count in counts.items():
            if count < FEW or len(turns[name]) < 2:
                continue
            found = self.executes(name)
            if not self._made.isdisjoint(found) or not self._failed.isdisjoint(found):
                continue
            if found not in weights:
                weights[found] = sum(map(self._size, found))
            # Of two that lead to the same, the shorter name: the package rather than a module in it.
            gain = (len(turns[name]) - 1) * weights[found] - len(name) / 1000
            if gain > most:
                best, most = name, gain
        if not best:
            return "", frozenset()
        inside = self.executes(best)
        return best, frozenset(module for module, found in sets.items() if best in found and module not in inside)

    def worth(self, module: str, users: int) -> bool:
        """Whether a process should execute `module` for so many users, which would all do so next."""
        price = self._price()
        return users > 1 and (not price or (users - 1) * sum(map(self._size, self.executes(module))) > price)

    def _price(self) -> float:
        """Bytes of source that might be executed in the time that a process takes which goes on from here."""
        if self._priced is None:
            try:
                with open("/proc/self/statm", encoding="ascii") as file:
                    resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, ValueError, IndexError):
                resident = 0
            self._priced = max(0, resident - _SMALL) * _FOR_MEMORY
        return self._priced

    def _size(self, name: str) -> int:
        found = self._sizes.get(name)
        if found is None:
            try:
                found = os.path.getsize(self._source(name).file)
            except OSError:
                found = 0
            self._sizes[name] = found
        return found


def _with_packages(name: str) -> list[str]:
    """`name`, and before it the packages above it."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
