"""What a call should come to: one value for all machines, or one for each machine or platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from masquerade.contracts.kinds import table_of
from masquerade.contracts.settings import Keys, Kind, Place, hint
from masquerade.machines import Machine
from masquerade.machines.schema import PLATFORMS

T = TypeVar("T")


class _Anything:
    def __repr__(self) -> str:
        return "ANYTHING"


#: No expectation: any value will do, also None.
ANYTHING: Any = _Anything()


@dataclass(frozen=True)
class PerMachine(Generic[T]):
    """A value for all machines, and others for those that are named: by machine, or by platform."""

    common: T
    on: Mapping[str, T] = field(default_factory=dict)

    def pick(self, machine: Machine, names: Sequence[str]) -> T:
        """The value for a machine that the configuration calls by `names`, the best first, or by its platform."""
        for key in (*names, machine.platform):
            if key in self.on:
                return self.on[key]
        return self.common

    def strangers(self, names: Sequence[str]) -> Iterator[tuple[Keys, str]]:
        """Keys that are neither a platform nor one of these names of machines."""
        for key in self.on:
            if key not in (*names, *PLATFORMS):
                yield (key,), f"{key!r} is no machine of this contract{hint(key, dict.fromkeys((*names, *PLATFORMS)))}"


NONE: PerMachine[Any] = PerMachine(ANYTHING)


def per_machine(item: Kind[T]) -> Kind[PerMachine[T]]:
    """One value, or a table of them by machine or platform."""
    tables = table_of(item)

    def kind(value: Any, place: Place) -> PerMachine[T]:
        if isinstance(value, Mapping):
            return PerMachine(ANYTHING, tables(value, place))
        return PerMachine(item(value, place))

    return kind


def same(want: Any, got: Any) -> bool:
    """Whether two values of JSON are alike: true is not 1, and 1 is 1.0."""
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(same, want, got))
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(same(value, got[key]) for key, value in want.items())
    return bool(want == got)
