"""Owners of modules that are not there: of a name that is misspelt nothing would ever be found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache

from masquerade.machines import default_owners
from masquerade.machines.errors import nearest
from masquerade.stage.check import Check, SubjectError
from masquerade.stage.standins import Discover

#: The modules of a package in these folders; none where it is not there.
Modules = Callable[[str, tuple[str, ...]], tuple[str, ...]]


def asked_of(discover: Discover) -> Modules:
    """What a stage finds, each asked for once."""

    @cache
    def modules(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return discover(name, path).modules
        except SubjectError:
            return ()

    return modules


def missing(names: Collection[str], checks: Iterable[Check], modules: Modules) -> dict[str, str]:
    """Those of `names`, which checks have owners for, that no check has, though one has their package -> the mend.

    A package that is not installed says nothing, nor do the names that come with masquerade. A module that a stand-in
    replaces is there. Of the machine here nothing is said: no stand-in can speak there for what was not built.
    """
    if not names:
        return {}

    shipped = {name for listed in default_owners().values() for name in listed}
    there: dict[str, bool] = {}
    said: dict[str, str] = {}
    for check in checks:
        if check.machine.platform == "here":
            continue
        for name in (name for listed in check.owners.values() for name in listed):
            if name not in names or name in shipped or there.get(name):
                continue
            there[name] = _stands(name, check) or bool(modules(name, check.path))
            known = () if there[name] else modules(name.partition(".")[0], check.path)
            if known:
                said[name] = _mend(name, known)
    return {name: mend for name, mend in said.items() if not there[name]}


def _stands(name: str, check: Check) -> bool:
    """Whether a module is one that stands for another, or lies below one: declared, or a package of the machine."""
    packages = {*check.present, *(check.machine.packages.get("present") or {}), *check.stand_ins}
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def _mend(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known, 1)
    meant = f"did you mean {close[0]}?" if close else "mend its name or take it out."
    return f"there is no module {name}; {meant} One that is not built here takes a stand-in"
