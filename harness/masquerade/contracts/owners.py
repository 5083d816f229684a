"""The owners that a configuration names: for its contracts, and for whoever asks in the project's folder.

One of a module that is not there is a mistake, with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from masquerade.contracts import kinds, locate
from masquerade.contracts.contract import Contract, Discover
from masquerade.contracts.errors import ConfigurationError, Problem, shown
from masquerade.contracts.settings import Place, attempt
from masquerade.machines import default_owners
from masquerade.machines.owners import reassign
from masquerade.stage.check import Check
from masquerade.stage.owners import Modules, asked_of, missing

Places = Mapping[str, Sequence[Place]]


@dataclass(frozen=True)
class ProjectOwners:
    """What the `[owners]` of the configuration `file` says: (platform, modules), and the places of each module."""

    file: str = ""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    places: Places = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of them."""
        return (f"the owners in {self.file} count",) if self.words else ()

    def all(self) -> Mapping[str, tuple[str, ...]]:
        """The owners that come with masquerade, and these on top."""
        return reassign(default_owners(), self.words)

    def refuse_missing(self, checks: Iterable[Check], modules: Modules) -> None:
        """Raises ConfigurationError, with the lines, for modules whose package lacks them."""
        if problems := list(_problems(self.places, checks, modules)):
            raise ConfigurationError(problems)


def project_owners(start: Path | str = ".") -> ProjectOwners:
    """The owners of the nearest configuration in `start` and the folders above it; none where there is none.

    Nothing else of it is read. Raises ConfigurationError for owners that cannot be.
    """
    found = locate.looked_for(Path(start))
    if found is None:
        return ProjectOwners()
    document, tables = locate.opened(found)
    named = tables.get("owners", {}) if isinstance(tables, Mapping) else {}
    owners = attempt(kinds.owners, named, Place(document).at("owners"))
    if owners is None or document.problems:
        raise ConfigurationError(document.problems)
    return ProjectOwners(shown(document.file), tuple(owners.items()), document.owned)


def misnamed(contracts: Sequence[Contract], discover: Discover) -> Iterator[Problem]:
    """What the owners name that none of these contracts can find, though its package is there."""
    places = {name: found for contract in contracts for name, found in contract.place.document.owned.items()}
    checks = (contract.check(contract.name, machine, "") for contract in contracts for machine in contract.variants())
    return _problems(places, checks, asked_of(discover))


def _problems(places: Places, checks: Iterable[Check], modules: Modules) -> Iterator[Problem]:
    for name, mend in missing(places, checks, modules).items():
        for place in places[name]:
            yield place.problem(mend)
