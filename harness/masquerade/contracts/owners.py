"""The owners that a configuration names: for its contracts, and for whoever asks in the project's folder.

One of a module that is not there is a mistake, with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """What the `[owners]` of the configuration `file` says: (platform, modules), and the places of each module.

    `standing` are the modules that its stand-ins and `present` speak of: these may be owned, though they are not there.
    """

    file: str = ""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    places: Places = field(default_factory=dict)
    standing: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of them."""
        return (f"the owners in {self.file} count",) if self.words else ()

    def all(self) -> Mapping[str, tuple[str, ...]]:
        """The owners that come with masquerade, and these on top."""
        return reassign(default_owners(), self.words)

    def refuse_missing(self, checks: Iterable[Check], modules: Modules) -> None:
        """Raises ConfigurationError, with the lines, for modules whose package lacks them."""
        checks = (replace(check, present=(*check.present, *self.standing)) for check in checks)
        if problems := list(_problems(self.places, checks, modules)):
            raise ConfigurationError(problems)


def project_owners(start: Path | str = ".") -> ProjectOwners:
    """The owners of the nearest configuration in `start` and the folders above it; none where there is none.

    Raises ConfigurationError for owners that cannot be, for a file that is no TOML, and for two files in one folder.
    What else is wrong with the configuration is for those who ask for its contracts.
    """
    try:
        found = locate.looked_for(Path(start))
    except FileNotFoundError:  # the working directory is gone
        found = None
    if found is None:
        return ProjectOwners()
    document, settings = locate.opened(found)
    tables = settings if isinstance(settings, Mapping) else {}
    place = Place(document)
    owners = attempt(kinds.owners, tables.get("owners", {}), place.at("owners"))
    if owners is None or document.problems:
        raise ConfigurationError(document.problems)
    stand_ins = attempt(kinds.stand_ins, tables.get("stand-ins", {}), place.at("stand-ins")) or {}
    standing = (name for name, adapter in stand_ins.items() if adapter is not None)
    present = attempt(kinds.list_of(kinds.module), tables.get("present", []), place.at("present")) or ()
    return ProjectOwners(shown(document.file), tuple(owners.items()), document.owned, (*standing, *present))


def misnamed(contracts: Sequence[Contract], discover: Discover) -> Iterator[Problem]:
    """What the owners name that none of these contracts can find, though its package is there."""
    places = {name: found for contract in contracts for name, found in contract.place.document.owned.items()}
    checks = (contract.check(contract.name, machine, "") for contract in contracts for machine in contract.variants())
    return _problems(places, checks, asked_of(discover))


def _problems(places: Places, checks: Iterable[Check], modules: Modules) -> Iterator[Problem]:
    for name, mend in missing(places, checks, modules).items():
        for place in places[name]:
            yield place.problem(mend)
