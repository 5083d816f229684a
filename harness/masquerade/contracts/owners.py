"""Owners that a configuration names, of modules that are not there: each is a mistake, with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from masquerade.contracts.contract import Contract, Discover
from masquerade.contracts.errors import Problem
from masquerade.stage.owners import missing


def misnamed(contracts: Sequence[Contract], discover: Discover) -> Iterator[Problem]:
    """What the owners name that none of these contracts can find, though its package is there."""
    places = {name: found for contract in contracts for name, found in contract.place.document.owned.items()}
    checks = (contract.check(contract.name, machine, "") for contract in contracts for machine in contract.variants())
    for name, mend in missing(places, checks, discover).items():
        for place in places[name]:
            yield place.problem(mend)
