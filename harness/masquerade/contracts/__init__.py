"""Contracts: what must hold on which machines, read from a project's configuration. Loads no torch, rich or click.

configuration = load(".")                           # every error of the configuration at once, with its line
with Stage(configuration.python) as stage:
    for case, record in run(configuration, stage): ...
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.contracts.configuration import Configuration, load
    from masquerade.contracts.contract import Broken, Case, Contract
    from masquerade.contracts.errors import ConfigurationError, Problem
    from masquerade.contracts.project import find_project
    from masquerade.contracts.runner import collect, finish, run

__all__ = [
    "Broken",
    "Case",
    "Configuration",
    "ConfigurationError",
    "Contract",
    "Problem",
    "collect",
    "find_project",
    "finish",
    "load",
    "run",
]

_MODULES = {
    **dict.fromkeys(("Configuration", "load"), "configuration"),
    **dict.fromkeys(("Broken", "Case", "Contract"), "contract"),
    **dict.fromkeys(("ConfigurationError", "Problem"), "errors"),
    "find_project": "project",
    **dict.fromkeys(("collect", "finish", "run"), "runner"),
}


def __getattr__(name: str) -> Any:
    # A pytest plugin imports this package in every run; what a run does not use, it does not load.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
