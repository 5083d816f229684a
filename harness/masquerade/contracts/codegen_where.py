"""Tables of settings by place: a machine, an arch or a platform, for one configuration alone or for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from masquerade.contracts.settings import hint

T = TypeVar("T")


def matching(table: Mapping[str, T], configuration: str, names: Sequence[str]) -> Iterator[T]:
    """The values for a configuration on a machine of these names, from the narrowest place to the widest."""
    for name in names:
        for key in (f"{configuration}@{name}", name):
            if key in table:
                yield table[key]


def strangers(
    table: Mapping[str, object], configurations: Iterable[str], names: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Keys that name no place of the contract, each with the error."""
    known, places = list(configurations), list(dict.fromkeys(names))
    for key in table:
        configuration, at, place = key.rpartition("@")
        if at and configuration not in known:
            yield key, f"{configuration!r} is no configuration of this contract{hint(configuration, known)}"
        elif place not in places:
            yield key, f"{place!r} is no machine, arch or platform of this contract{hint(place, places)}"
