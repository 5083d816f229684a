"""Names such as `h200x8`, `mi355x+aiter` and `mi300x-amdsmi`: a machine, how many devices, and what is installed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from .errors import UnknownMachineError, nearest
from .machine import Machine
from .packages import MANAGEMENT, known_packages, stand_in

#: c10/cuda/CUDAMacros.h: C10_COMPILE_TIME_MAX_GPUS of torch 2.13.
MAX_DEVICES = 120

_SUFFIX = re.compile(r"(?:[xX](?P<count>\d+))?(?P<packages>(?:[+-][A-Za-z_][\w.]*)*)")


@dataclass(frozen=True)
class Variant:
    """What a name asks for beyond the machine itself."""

    base: str
    count: int | None = None
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        count = "" if self.count is None else f"x{self.count}"
        return count + "".join(f"+{name}" for name in self.present) + "".join(f"-{name}" for name in self.absent)


def split(name: str, known: Collection[str]) -> Variant | None:
    """The variant that a name means; None if it begins with no known machine.

    The longest known name wins: rtx5090, max1550 and h100-sxm are machines, mi355xx8 is eight of mi355x.
    Raises UnknownMachineError for a count that cannot be, and for a package that is one letter off a known one.
    """
    for end in range(len(name), 0, -1):
        match = _SUFFIX.fullmatch(name, end)
        if match and name[:end].lower() in known:
            count = None if match["count"] is None else int(match["count"])
            # Of `+x-x` the later holds.
            state = {package: sign for sign, package in re.findall(r"([+-])([^+-]+)", match["packages"])}
            present = tuple(sorted(package for package, sign in state.items() if sign == "+"))
            absent = tuple(sorted(package for package, sign in state.items() if sign == "-"))
            return _checked(name, Variant(name[:end].lower(), count, present, absent), known)
    return None


def _checked(name: str, variant: Variant, known: Collection[str]) -> Variant:
    if variant.count is not None and not 1 <= variant.count <= MAX_DEVICES:
        raise UnknownMachineError(name, f"{name}: a machine has 1 to {MAX_DEVICES} devices, not {variant.count}")
    for package in variant.absent:
        if package not in known_packages():
            # Any package may be absent, so only what looks like a slip of the pen is refused.
            meant = _one_letter_off(name, (each for each in known if "-" in each))
            meant += _one_letter_off(package, known_packages())
            if meant:
                raise UnknownMachineError(name, f"{name}: no machine and no known package {package!r}", meant)
    return variant


def _one_letter_off(word: str, known: Iterable[str]) -> list[str]:
    return [close for close in nearest(word.lower(), known) if _distance_is_one(word.lower(), close)]


def _distance_is_one(one: str, other: str) -> bool:
    """Whether one letter added, left out or exchanged makes one of the other."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1 or one == other:
        return False
    at = next((place for place, (a, b) in enumerate(zip(one, other)) if a != b), len(one))  # noqa: B905
    return one[at:] == other[at + 1 :] or one[at + 1 :] == other[at + 1 :]


def install(machine: Machine, present: Iterable[str] = (), absent: Iterable[str] = ()) -> Machine:
    """The machine with these packages present and absent too, and an id that says so. Of one in both, absent holds."""
    gone = tuple(dict.fromkeys(absent))
    return apply(machine, Variant(machine.id, None, tuple(name for name in present if name not in gone), gone))


def apply(machine: Machine, variant: Variant) -> Machine:
    """The machine under the variant's name, with the variant's packages. The count of devices is the builder's work."""
    name = machine.id + variant.suffix
    said = f"the variant {name!r} of the machine says so"
    sources = machine.sources()
    present: dict[str, Any] = {key: value for key, value in machine.packages["present"].items()}
    absent = [package for package in machine.packages["absent"] if package not in variant.present]
    management = dict(machine.management)
    for package in variant.present:
        described = known_packages().get(package) or stand_in(package)
        present[package] = described.to_json()
        sources |= {f"packages.present.{package}.{leaf}": described.source for leaf in described.to_json()}
        if package in MANAGEMENT:
            library, home = MANAGEMENT[package]
            # The library loads anywhere, and finds no driver of its vendor on another vendor's machine.
            management[library] = "ok" if machine.platform == home else "failing"
            sources[f"management.{library}"] = said
    for package in variant.absent:
        present.pop(package, None)
        absent.append(package)
        if package in MANAGEMENT:
            management[MANAGEMENT[package][0]] = "absent"
            sources[f"management.{MANAGEMENT[package][0]}"] = said
    packages = {"present": present, "absent": list(dict.fromkeys(absent))}
    sources["packages.absent"] = said if packages["absent"] else "no variant hides a package"
    return dataclasses.replace(machine, id=name, packages=packages, management=management, _sources=sources)
