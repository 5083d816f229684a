"""Vendor packages: who owns them, where they can be installed, and what importing them does to the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from .schema import UNKNOWN

#: Packages that are a management library: their presence is a state of the machine, and not only a module to import.
MANAGEMENT = {"pynvml": ("nvml", "cuda"), "amdsmi": ("amdsmi", "rocm")}


@dataclass(frozen=True)
class Package:
    """An import package. `owner` is the one platform on which its code may run; None where several have it.

    `on_import` is the device-touch level of its import: clean, queried, fork-poison or device-init.
    """

    name: str
    distribution: str
    platforms: tuple[str, ...]
    source: str
    version: str = UNKNOWN
    owner: str | None = None
    on_import: str = "clean"

    def to_json(self) -> dict[str, str]:
        return {"version": self.version, "distribution": self.distribution, "on_import": self.on_import}


@lru_cache(maxsize=1)
def known_packages() -> Mapping[str, Package]:
    """The packages of packages.toml by import name."""
    from .reading import read_toml

    text = _data_file("packages.toml").read_text(encoding="utf-8")
    return {name: _package(name, table) for name, table in read_toml(text, "packages.toml").items()}


def _package(name: str, table: Mapping[str, Any]) -> Package:
    return Package(name=name, **{**table, "platforms": tuple(table["platforms"])})


def _data_file(name: str) -> Any:
    resources = import_module("importlib.resources")  # not at the top: it costs 15 ms
    return resources.files(__package__).joinpath(name)


def default_owners() -> dict[str, tuple[str, ...]]:
    """Which dotted module names belong to which platform: the vendor packages that only one platform has."""
    owners: dict[str, list[str]] = {}
    for package in known_packages().values():
        if package.owner:
            owners.setdefault(package.owner, []).append(package.name)
    return {platform: tuple(sorted(names)) for platform, names in owners.items()}


def stand_in(name: str) -> Package:
    """A package that nobody described: present by name alone, and clean to import."""
    return Package(name, name, (), "a stand-in: packages.toml does not know this package")
