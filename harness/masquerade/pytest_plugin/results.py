"""The records of a configuration's checks in one process of pytest: each is made once, and many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from masquerade.pytest_plugin.workers import Shared, workers
from masquerade.testing import shared_stage

if TYPE_CHECKING:
    from masquerade.contracts import Case, Configuration
    from masquerade.stage import Record

#: Checks that a worker makes at a time are no more than this, since their first test waits for them all.
_MOST = 250


class Results:
    """Records of checks, as they are asked for.

    With the first, all that are `selected` are made, for the stage is fast with many. A worker of xdist makes the check
    that it is given; of many imports on one machine it makes a block, which is its own or another worker's.
    """

    def __init__(
        self, configuration: Configuration, file: Path, config: pytest.Config, selected: Callable[[], list[Case]]
    ) -> None:
        self.configuration = configuration
        self.records: dict[str, Record] = {}
        self._selected, self._workers = selected, workers(config)
        self._shared = Shared(config, file)
        self._coming: Iterator[tuple[Case, Record]] = iter(())

    def record(self, case: Case) -> Record:
        """The record of one check."""
        if not self._known(case):
            self._take_until(case)
        if not self._known(case):
            if self._workers:
                self._make_with_its_block(case)
            else:
                self._make([case, *(other for other in self._selected() if other.id not in self.records)])
                self._take_until(case)
        return self.records[case.id]

    def all(self, cases: Sequence[Case]) -> list[Record]:
        """The records of `cases`; those that are missing are checked now."""
        missing = [case for case in cases if not self._known(case)]
        if self._workers:
            for case in sorted(missing, key=lambda case: case.check.machine.id):
                self.record(case)
        elif missing:
            self._make(missing)
            self._take_until(None)
        return [self.records[case.id] for case in cases]

    def _known(self, case: Case) -> bool:
        if case.id not in self.records and (record := self._shared.find(case.id, case.check.levels)) is not None:
            self.records[case.id] = record
        return case.id in self.records

    def _make(self, cases: Iterable[Case]) -> None:
        from masquerade import contracts

        unique = {case.id: case for case in cases}
        stage = shared_stage(self.configuration.python)
        self._coming = contracts.run(self.configuration, stage, unique.values())

    def _take_until(self, wanted: Case | None) -> None:
        for case, record in self._coming:
            self.records[case.id] = record
            self._shared.keep(record)
            if wanted is not None and case.id == wanted.id:
                return

    def _make_with_its_block(self, case: Case) -> None:
        block = self._blocks.get(case.id, ())
        if not block:
            stage, others = shared_stage(self.configuration.python), self._on_machine[case.check.machine.id]
            stage.more_to_come = any(other.id not in self.records for other in others)
            try:
                self._make([case])
                self._take_until(None)
            finally:  # the stage is that of the tests, too
                stage.more_to_come = False
            return
        with self._shared.alone(block[0].id):
            if not self._known(case):
                self._make(other for other in block if not self._known(other))
                self._take_until(None)

    @cached_property
    def _on_machine(self) -> dict[str, list[Case]]:
        found: dict[str, list[Case]] = defaultdict(list)
        for case in self._selected():
            found[case.check.machine.id].append(case)
        return found

    @cached_property
    def _blocks(self) -> dict[str, Sequence[Case]]:
        """The imports of one machine that are made together, by the id of each; there are enough for all workers."""
        from masquerade.stage.fast import WORTH

        found: dict[str, Sequence[Case]] = {}
        shards = -(-self._workers // max(1, len(self._on_machine)))
        for cases in self._on_machine.values():
            imports = [case for case in cases if case.check.action == "import"]
            size = min(_MOST, max(WORTH, -(-len(imports) // shards)))
            for start in range(0, len(imports), size):
                block = imports[start : start + size]
                if len(block) >= WORTH:
                    found.update((case.id, block) for case in block)
        return found
