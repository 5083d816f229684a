"""Finders of the subject's own: the modules that they answer for are not to be known by their source files."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from typing import Any

from masquerade.stage.steps import ordinary

#: Runs a function in a process that ends with it, and gives what it returned; None where nothing came.
InAFork = Callable[[Callable[[], Any]], Any]


class Finders:
    """Who is asked for modules before PathFinder is."""

    def __init__(self) -> None:
        self._asked: tuple[Any, ...] = ()
        #: The modules that none of them answers for; None where there is none of them.
        self._free: frozenset[str] | None = None

    def answer_for(self, module: str) -> bool:
        """Whether one of them may answer for `module`; also where it was not asked yet."""
        return self._free is not None and module not in self._free

    def ask(self, modules: Iterable[str], in_a_fork: InAFork) -> None:
        """Learn which of `modules` they answer for, where they are not those that were asked before."""
        before = list(itertools.takewhile(lambda finder: finder is not PathFinder, sys.meta_path))
        own = [finder for finder in before if not ordinary(finder)]
        asked = (*map(id, own), PathFinder in sys.meta_path)
        if asked == self._asked:
            return
        self._asked = asked
        if not own and PathFinder in sys.meta_path:
            self._free = None
            return
        names = frozenset(modules)
        found = (
            in_a_fork(lambda: [name for name in names if _answered(own, name)]) if PathFinder in sys.meta_path else 0
        )
        self._free = names.difference(map(str, found)) if isinstance(found, list) else frozenset()


def _answered(finders: Iterable[Any], module: str) -> bool:
    path = getattr(sys.modules.get(module.rpartition(".")[0]), "__path__", None)
    return any(finder.find_spec(module, path, None) is not None for finder in finders)
