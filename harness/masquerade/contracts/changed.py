"""Which checks a change of some files asks for: what a hook runs before a commit. The whole run stays CI's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from masquerade.contracts.contract import Case
from masquerade.contracts.golden import reasons_file
from masquerade.contracts.tabled import Tabled


def touched(cases: Iterable[Case], files: Iterable[Path], configuration: Path) -> tuple[Case, ...]:
    """The cases that these files bear on.

    An import is checked if its own module changed; a call if anything in its package did, as it may reach all of it;
    every case of a contract if its golden table did, and every case of all if the configuration did.
    """
    changed = {file.resolve() for file in files}
    if configuration.resolve() in changed:
        return tuple(cases)
    return tuple(case for case in cases if changed & _golden(case) or _is_subject(case, changed))


def _golden(case: Case) -> set[Path]:
    if not isinstance(case.owner, Tabled):
        return set()
    file = Path(case.owner.golden_file)
    return {file.resolve(), reasons_file(file).resolve()}


def _is_subject(case: Case, changed: set[Path]) -> bool:
    module, colon, _ = case.check.subject.partition(":")
    top, *rest = module.split(".")
    for folder in case.check.path:
        root = Path(folder).resolve()
        package = root / top
        if colon and any(file.is_relative_to(package) or file == package.with_suffix(".py") for file in changed):
            return True
        here = package.joinpath(*rest)
        if not changed.isdisjoint((here / "__init__.py", here.parent / f"{here.name}.py")):
            return True
    return False
