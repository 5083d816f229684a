"""What the commands ask of the stage. Tests bring a stage of their own in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from masquerade.stage.client import Check, Discovery
    from masquerade.stage.record import Record
    from masquerade.stage.run_as import RunResult


class StagePort(Protocol):
    """A started stage. `reads` has records tell what their checks read."""

    reads: bool

    @property
    def facts(self) -> dict[str, Any]: ...

    def control(self) -> Record: ...

    def discover(self, name: str, path: tuple[str, ...] = ()) -> Discovery: ...

    def run_all(self, checks: Iterable[Check]) -> Iterator[Record]: ...

    def scan(self, checks: Iterable[Check]) -> Iterator[Record]: ...


class Ports(Protocol):
    """Where a command gets a stage from, and who runs a command in disguise."""

    def stage(self, *, python: str | None, isolation: str, jobs: int) -> AbstractContextManager[StagePort]: ...

    def run_as(self, **request: Any) -> RunResult: ...


class Real:
    """The stage of this package."""

    def stage(self, *, python: str | None, isolation: str, jobs: int) -> AbstractContextManager[StagePort]:
        from masquerade.stage import Stage

        return Stage(python=python, isolation=isolation, jobs=jobs)

    def run_as(self, **request: Any) -> RunResult:
        from masquerade.stage.run_as import run_as

        return run_as(**request)
