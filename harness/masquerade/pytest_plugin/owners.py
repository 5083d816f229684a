"""Owners of modules for marked tests: those that a mark names, or those of the project's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.machines.owners import OWNERS

if TYPE_CHECKING:
    from masquerade.contracts.project import Project
    from masquerade.stage.check import Check


@cache
def of_project(folder: Path) -> Project:
    """Those of the configuration that is nearest to a test's folder. Raises ConfigurationError where they cannot be."""
    from masquerade.contracts import find_project

    return find_project(folder)


def misnamed_in(project: Project, checks: Iterable[Check]) -> Iterator[str]:
    """The mistakes of a configuration whose owners are of modules that their package lacks, in all these checks."""
    from masquerade.contracts import ConfigurationError

    try:
        project.refuse_missing(checks, _modules)
    except ConfigurationError as error:
        yield str(error)


def wrong(owners: Mapping[Any, Any]) -> Iterator[str]:
    """What is wrong with the owners that a mark names, by their words alone."""
    for platform, names in owners.items():
        if platform not in OWNERS:
            yield f"owners: {platform!r} is no platform; {', '.join(OWNERS)} own modules"
        elif not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            yield f"owners[{platform!r}]={names!r} must be a list of names"


def misnamed(owners: Mapping[str, Sequence[str]], checks: Iterable[Check]) -> Iterator[str]:
    """Why nothing would be found of modules that a mark names: their package is there, and lacks them."""
    if owners:
        from masquerade.stage.owners import missing

        named = {name: platform for platform, names in owners.items() for name in names}
        for name, mend in missing(named, checks, _modules).items():
            yield f"owners[{named[name]!r}]: {mend}"


def _modules(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """The modules of a package that this process would find; of a part of one that part alone."""
    return _found(name, tuple(entry for entry in sys.path if isinstance(entry, str)))


@cache
def _found(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
    from masquerade.stage import discovery

    if "." in name:
        return (name,) if discovery.there(name) else ()
    return discovery.names(name)
