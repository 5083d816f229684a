"""What importlib.metadata says of the packages that a machine has or lacks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from . import hooks
from .standins import ROOT
from .world import UNKNOWN, UnknownValueError, World

Package = dict[str, Any]


def normalized(name: str) -> str:
    """A distribution's name as it is compared: lower case, any of `-_.` the same."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(world: World, present: Callable[[], dict[str, Package]]) -> None:
    """Answer for the stand-ins `present()` and deny what hooks hides: at PathFinder, where importlib.metadata asks.

    `present` gives {import name: {"version": ..., "distribution": ...}} of those that are stand-ins at this moment.
    """
    found: Any = getattr(PathFinder, "find_distributions", None)  # importlib_metadata may have taken it away

    def find_distributions(*args: Any, **kwargs: Any) -> Iterator[Any]:
        """Find distributions, less those of absent packages, and with those that stand-ins are from."""
        return _answer(sys.modules["importlib.metadata"], found, args, kwargs)

    def _answer(metadata: ModuleType, original: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        context = args[0] if args else kwargs.get("context") or metadata.DistributionFinder.Context()
        missing = hooks.hidden()
        installed = frozenset(name for name in missing if hooks.installed(name))
        for distribution in original(*args, **kwargs):
            if not _denied(distribution, missing, installed):
                yield distribution
        if "path" not in vars(context):  # a search in folders of the caller's own finds what lies in them
            for name, package in present().items():
                stand_in = package.get("distribution") or name
                if context.name is None or normalized(context.name) == normalized(stand_in):
                    yield _distribution_class(metadata)(world, name, package)

    def backport(module: ModuleType) -> None:
        """importlib_metadata brings a finder of its own and takes the standard one away."""
        finder = module.MetadataPathFinder
        theirs = finder.find_distributions
        finder.find_distributions = lambda self, *args, **kwargs: _answer(
            module, lambda *a, **k: theirs(self, *a, **k), args, kwargs
        )

    if found is not None:
        PathFinder.find_distributions = staticmethod(find_distributions)  # type: ignore[method-assign]
    hooks.on_import("importlib_metadata", backport)


def _denied(distribution: Any, missing: frozenset[str], installed: frozenset[str]) -> bool:
    """Whether a distribution is an absent package's, by its name or by what it lets one import."""
    if not missing:
        return False
    name = normalized(distribution.metadata["Name"] or "") if installed else normalized(_stem(distribution))
    if any(normalized(package) == name for package in missing):
        return True
    return bool(installed) and not installed.isdisjoint(_top_level(distribution))


def _stem(distribution: Any) -> str:
    """The name as the metadata folder has it, without reading a file: listing all distributions must stay cheap."""
    path = getattr(distribution, "_path", None)
    return path.name.partition("-")[0] if path is not None else distribution.metadata["Name"] or ""


def _top_level(distribution: Any) -> set[str]:
    declared = distribution.read_text("top_level.txt")
    if declared:
        return set(declared.split())
    return {file.parts[0].removesuffix(".py") for file in distribution.files or ()}


_classes: dict[str, Any] = {}


def _distribution_class(metadata: ModuleType) -> Any:
    """The class of stand-in distributions, below Distribution of this metadata module. Made when first asked for."""
    if metadata.__name__ not in _classes:

        class StandInDistribution(metadata.Distribution):  # type: ignore[name-defined,misc]
            """The metadata of a package that is not installed and that the machine has."""

            def __init__(self, world: World, package: str, values: Package) -> None:
                self._world, self._package, self._values = world, package, values

            def read_text(self, filename: str) -> str | None:
                if filename == "METADATA":
                    name = self._values.get("distribution") or self._package
                    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {self._values.get('version', UNKNOWN)}\n"
                return f"{self._package}\n" if filename == "top_level.txt" else None

            def locate_file(self, path: Any) -> Any:
                from pathlib import PurePosixPath

                return PurePosixPath(ROOT) / path

            @property
            def version(self) -> str:
                version = self._values.get("version", UNKNOWN)
                if version == UNKNOWN:
                    key = f"packages.present.{self._package}.version"
                    raise UnknownValueError(self._world.id, key, "importlib.metadata.version")
                return str(version)

        _classes[metadata.__name__] = StandInDistribution
    return _classes[metadata.__name__]
