"""What a configuration says of its project beside its contracts: for scans, commands, marked tests and ensure_lazy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from masquerade.contracts import kinds, locate
from masquerade.contracts.errors import ConfigurationError, shown
from masquerade.contracts.owners import Places, problems_of
from masquerade.contracts.settings import Place, attempt
from masquerade.machines import default_owners
from masquerade.machines.owners import reassign
from masquerade.stage.check import Check
from masquerade.stage.owners import Modules


@dataclass(frozen=True)
class Project:
    """What the configuration `file` says of its project to whoever asks.

    `words` are its owners, (platform, modules), and `places` where each module is named. `standing` are the modules
    that its stand-ins and `present` speak of: these may be owned, though they are not there. `path` are the folders of
    its `path`.
    """

    file: str = ""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    places: Places = field(default_factory=dict)
    standing: tuple[str, ...] = ()
    path: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of it."""
        return (f"the owners in {self.file} count",) if self.words else ()

    def owners(self) -> Mapping[str, tuple[str, ...]]:
        """The owners that come with masquerade, and these on top."""
        return reassign(default_owners(), self.words)

    def refuse_missing(self, checks: Iterable[Check], modules: Modules) -> None:
        """Raises ConfigurationError, with the lines, for modules whose package lacks them."""
        checks = (replace(check, present=(*check.present, *self.standing)) for check in checks)
        if problems := list(problems_of(self.places, checks, modules)):
            raise ConfigurationError(problems)


def find_project(start: Path | str = ".") -> Project:
    """What the nearest configuration says, in `start` and the folders above it; nothing where there is none.

    Raises ConfigurationError for owners that cannot be, for a file that is no TOML, and for two files in one folder.
    What else is wrong with the configuration is for those who ask for its contracts.
    """
    try:
        found = locate.looked_for(Path(start))
    except FileNotFoundError:  # the working directory is gone
        found = None
    if found is None:
        return Project()
    document, settings = locate.opened(found)
    tables = settings if isinstance(settings, Mapping) else {}
    place = Place(document)
    owners = attempt(kinds.owners, tables.get("owners", {}), place.at("owners"))
    if owners is None or document.problems:
        raise ConfigurationError(document.problems)
    stand_ins = attempt(kinds.stand_ins, tables.get("stand-ins", {}), place.at("stand-ins")) or {}
    standing = (name for name, adapter in stand_ins.items() if adapter is not None)
    present = attempt(kinds.list_of(kinds.module), tables.get("present", []), place.at("present")) or ()
    path = attempt(kinds.list_of(kinds.folder), tables.get("path", []), place.at("path")) or ()
    return Project(shown(document.file), tuple(owners.items()), document.owned, (*standing, *present), tuple(path))
