"""Which platform a module belongs to, and how a user's word changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

#: The owner of what may run on every platform; it takes a part out of a package that a platform owns.
ANY = "any"

Owners = Mapping[str, Sequence[str]]


def reassign(owners: Owners, words: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """`owners` changed by words (platform, modules): the last word on a module counts."""
    owner_of = {module: platform for platform, modules in owners.items() for module in modules}
    owner_of.update({module: platform for platform, modules in words for module in modules})
    platforms = dict.fromkeys([*owners, *owner_of.values()])
    return {platform: tuple(m for m, owner in owner_of.items() if owner == platform) for platform in platforms}


def platform_of(module: str, owners: Owners) -> str:
    """The platform that a module belongs to; "" where nobody owns it."""
    for platform, names in owners.items():
        if platform != ANY and any(f"{module}.".startswith(f"{name}.") for name in names):
            return platform
    return ""


def told_missing(module: str, owners: Owners, option: str) -> str:
    """What to know of a module that is not there, if a platform owns it; "" of others.

    `option` is what makes the package present, with {} for its name.
    """
    platform, package = platform_of(module, owners), module.partition(".")[0]
    says = f"{package} belongs to {platform} and is not there: {option.format(package)} shows who executes it"
    return says if platform else ""
