"""Backends, what they require, and the choice among them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from blockscale.kernels.checks import expect
from blockscale.layouts.padding import Padding

P = TypeVar("P")  # a family's problem

Requirement = Callable[[P], str]
"""Why a problem on this machine does not meet the requirement, as a sentence; empty if it does."""


def expect_sizes(problem: object, *names: str) -> None:
    """Raise ValueError unless these fields of a problem are integers from 1 on."""
    for name in names:
        size = getattr(problem, name)
        expect(isinstance(size, int) and size >= 1, name, repr(size), "at least 1, an integer")


@dataclass(frozen=True)
class Backend(Generic[P]):
    """One backend: its place in the order (lower first, per model family or under ""), and what it requires.

    Requirements are asked in order and only until one is unmet, so that what comes after a platform or a library check
    is never asked where that check fails.
    """

    name: str
    order: Mapping[str, int]
    requires: tuple[Requirement[P], ...]
    padding: Callable[[P], Padding] = field(default=lambda problem: Padding(1, 1))

    def why_not(self, problem: P) -> str:
        """The first unmet requirement's reason; empty if this backend can serve."""
        return next((reason for requirement in self.requires if (reason := requirement(problem))), "")

    def place(self, family: str) -> int | None:
        """Its place in a model family's order; None where it has none."""
        return self.order.get(family, self.order.get(""))


@dataclass(frozen=True)
class Decision(Generic[P]):
    """The chosen backend, the padding it wants, and why each backend before it was refused."""

    backend: Backend[P]
    padding: Padding
    refused: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.backend.name


@functools.cache
def backends_in(package: str) -> tuple[Backend[P], ...]:
    """The BACKEND of each module of a package: adding a backend is adding a file."""
    path = importlib.import_module(package).__path__
    modules = (importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path))
    return tuple(module.BACKEND for module in modules if hasattr(module, "BACKEND"))


def select(backends: tuple[Backend[P], ...], problem: P, family: str = "", explicit: str | None = None) -> Decision[P]:
    """The first backend of the family's order that can serve `problem`, or the explicit one.

    Raises ValueError if the explicit backend is unknown or cannot serve, NotImplementedError with every reason if none
    can.
    """
    if explicit is not None:
        return _explicit(backends, problem, explicit)
    refused: list[tuple[str, str]] = []
    places = [(place, backend) for backend in backends if (place := backend.place(family)) is not None]
    for _, backend in sorted(places, key=lambda pair: pair[0]):
        reason = backend.why_not(problem)
        if not reason:
            return Decision(backend, backend.padding(problem), tuple(refused))
        refused.append((backend.name, reason))
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in refused)
    raise NotImplementedError(f"No backend can serve {problem}:{reasons}")


def _explicit(backends: tuple[Backend[P], ...], problem: P, name: str) -> Decision[P]:
    by_name = {backend.name: backend for backend in backends}
    if name not in by_name:
        raise ValueError(f"backend: got {name!r}, expected one of {', '.join(sorted(by_name))}")
    backend = by_name[name]
    if reason := backend.why_not(problem):
        raise ValueError(f"backend: got {name!r}, which cannot serve: {reason}")
    return Decision(backend, backend.padding(problem), ())
