"""Which platform a module belongs to, and how a user's word changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .schema import PLATFORMS

#: The owner of what may run on every platform; it takes a part out of a package that a platform owns.
ANY = "any"

#: Who may own a module.
OWNERS = (*PLATFORMS, ANY)

Owners = Mapping[str, Sequence[str]]


def reassign(owners: Owners, words: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """`owners` changed by words (platform, modules): the last word on a module counts."""
    owner_of = {module: platform for platform, modules in owners.items() for module in modules}
    owner_of.update({module: platform for platform, modules in words for module in modules})
    platforms = dict.fromkeys([*owners, *owner_of.values()])
    return {platform: tuple(m for m, owner in owner_of.items() if owner == platform) for platform in platforms}


def owner_elsewhere(module: str, owners: Owners, platform: str) -> str:
    """The platform that owns a module, if that is another one; "" else. The longest entry that matches tells."""
    name = module
    while name:
        found = [owner for owner, names in owners.items() if name in names]
        if found:
            return "" if {platform, ANY} & set(found) else found[0]
        name = name.rpartition(".")[0]
    return ""


def told_missing(module: str, owners: Owners, option: str) -> str:
    """What to know of a module that is not there, if a platform owns it by this name; "" of others.

    `option` is what makes it present, with {} for its name. A module missing below an owned package is not told: the
    package itself is there.
    """
    platform = next((each for each, names in owners.items() if each != ANY and module in names), "")
    says = f"{module} belongs to {platform} and is not there: {option.format(module)} shows who executes it"
    return says if platform else ""
