"""Owners that a configuration names, of modules that are not there: each is a mistake, with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from masquerade.contracts.contract import Contract, Discover
from masquerade.contracts.errors import Problem
from masquerade.contracts.settings import Place
from masquerade.stage.check import Check
from masquerade.stage.owners import Modules, asked_of, missing

#: Modules that owners are named for, and where.
Places = Mapping[str, Sequence[Place]]


def misnamed(contracts: Sequence[Contract], discover: Discover) -> Iterator[Problem]:
    """What the owners name that none of these contracts can find, though its package is there."""
    places = {name: found for contract in contracts for name, found in contract.place.document.owned.items()}
    checks = (contract.check(contract.name, machine, "") for contract in contracts for machine in contract.variants())
    return problems_of(places, checks, asked_of(discover))


def problems_of(places: Places, checks: Iterable[Check], modules: Modules) -> Iterator[Problem]:
    """What these places name that none of the checks can find, though its package is there."""
    for name, mend in missing(places, checks, modules).items():
        for place in places[name]:
            yield place.problem(mend)
