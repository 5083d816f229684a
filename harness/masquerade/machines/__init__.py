"""Machines as data: what a host with certain devices would answer, with the source of each value.

resolve("mi355x+aiter").to_json()     # what the fakes are given
resolve("h200x8").sources()           # where each value was read
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

from .catalogue import ENTRY_POINTS, VARIABLE, Zoo
from .describe import Row, describe, unknown
from .errors import MachineError, Problem, UnknownMachineError
from .machine import HERE, Machine
from .packages import Package, default_owners, known_packages
from .variants import install

__all__ = [
    "ENTRY_POINTS",
    "HERE",
    "VARIABLE",
    "Machine",
    "MachineError",
    "Package",
    "Problem",
    "Row",
    "UnknownMachineError",
    "Zoo",
    "default_owners",
    "describe",
    "install",
    "known_packages",
    "load_file",
    "names",
    "resolve",
    "unknown",
]

Files = Iterable[str | os.PathLike[str]]


@lru_cache(maxsize=8)
def _zoo(files: tuple[str, ...], listed: str) -> Zoo:
    return Zoo(files)


def zoo(files: Files = ()) -> Zoo:
    """The zoo with users' files added; the same one as long as the files and MASQUERADE_MACHINES are the same."""
    return _zoo(tuple(os.fspath(path) for path in files), os.environ.get(VARIABLE, ""))


def resolve(name: str, files: Files = ()) -> Machine:
    """The machine that a name means: an id, an alias, or a variant of one such as `h200x8+aiter-amdsmi`.

    Raises UnknownMachineError with the nearest names, and MachineError if a file of the user's is not valid.
    """
    return zoo(files).resolve(name)


def names(files: Files = (), aliases: bool = False) -> list[str]:
    """The ids of all machines, by platform and name, `here` first; with their aliases if asked."""
    return zoo(files).names(aliases)


def load_file(path: str | os.PathLike[str]) -> Machine:
    """The machine in one TOML file. Raises MachineError that lists every bad field with its line."""
    return zoo().load(path)
