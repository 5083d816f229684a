"""Contracts with a golden table: reading it, holding it beside a run, and the acts that change it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from masquerade.contracts import golden
from masquerade.contracts.contract import Case, Contract
from masquerade.contracts.errors import ConfigurationError, Problem, shown
from masquerade.contracts.golden import Answers, Comparison, Plan, Table
from masquerade.contracts.golden.table import FIRST
from masquerade.stage.record import Record

T = TypeVar("T")
Self = TypeVar("Self", bound="Tabled")

Pairs = Iterable[tuple[Case, Record]]


@dataclass(frozen=True, kw_only=True)
class Tabled(Contract):
    """A contract whose right answers stand in a golden table. `keys` are the columns that name a row."""

    table: Table | None = field(default=None, repr=False)
    reasons: Answers = field(default_factory=dict, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        return (FIRST,)

    @property
    @abstractmethod
    def golden_file(self) -> str:
        """The golden table's file, absolute."""

    @property
    @abstractmethod
    def head(self) -> tuple[str, ...]:
        """The text above a new table."""

    @abstractmethod
    def plan(self, pairs: Pairs, source: str) -> Plan:
        """What the table should hold after these records, judged or not."""

    @abstractmethod
    def compared(self, pairs: Pairs) -> Comparison:
        """The golden table beside the answers in records, judged or not; rows that did not run are left out."""

    def doubts(self, before: Table | None, pairs: Pairs) -> Iterator[str]:
        """What to look at after a golden act that made this table of `before`, a line each."""
        yield from ()

    def rewritten(self: Self, act: str, pairs: Pairs, source: str) -> tuple[Self, bool]:
        """After a golden act on its files, and whether that changed them. `source` is written beside new answers.

        Raises ConfigurationError if a file cannot be written.
        """
        before = self.table or Table(head=self.head, keys=self.keys)
        table, reasons = golden.act(act, before, self.reasons, self.plan(pairs, source))
        if self.table is None and not table.rows:
            return self, False
        changed = golden.write(self.golden_file, table, reasons)
        return replace(self, table=golden.read(self.golden_file, self.keys), reasons=reasons), changed

    def attempted(self, read: Callable[[], T]) -> T | None:
        """What is read from golden files; None, with the problems beside those of the configuration, where it fails."""
        try:
            return read()
        except ConfigurationError as error:
            self.place.document.problems.extend(error.problems)
            return None

    def report_golden(self, file: str, line: int, message: str) -> None:
        self.place.document.problems.append(Problem(shown(file), line, "", message))
