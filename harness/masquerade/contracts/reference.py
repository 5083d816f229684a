"""The settings of a configuration as tables of Markdown, made from the classes that read them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from masquerade.contracts.allow import Allow
from masquerade.contracts.conditions import Conditions
from masquerade.contracts.configuration import KINDS, Configuration
from masquerade.contracts.contract import Contract
from masquerade.contracts.settings import settings


def markdown() -> str:
    """A table for each class of settings; what a class has from another one stands in that one's table."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    common = settings(Conditions)
    yield from _table("The configuration alone", Configuration, common)
    yield from _table("The configuration, and each contract for itself", Conditions, ())
    yield from _table("Every contract", Contract, common)
    for kind, place in KINDS.items():
        module, _, name = place.partition(":")
        cls = getattr(import_module(module), name)
        yield from _table(f"kind = {kind!r}".replace("'", '"'), cls, settings(Contract))
    from masquerade.contracts.call import Asked

    yield from _table("A problem of a routing contract, a configuration of a codegen contract", Asked, ())
    yield from _table("An entry of `allow`", Allow, ())


def _table(title: str, cls: type, known: object) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    yield "| setting | |"
    yield "|---|---|"
    for name, declared in settings(cls).items():
        if name not in known:  # type: ignore[operator]
            needed = " **Required.**" if declared.required else ""
            yield f"| `{name}` | {declared.doc}{needed} |"
    yield ""
