"""Steps of an import: what a module's beginning consists of, and what each would do in this process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

#: Stands in a stack for the line of whichever module shares an import, until that module's log is written.
FILE = "<masquerade: a shared import>"

#: ("package", name), ("import", module) or ("from", module, name, ...).
Step = tuple[str, ...]


def code(step: Step) -> Any:
    """The statement of a step, compiled."""
    kind, module, *names = step
    text = f"import {module}" if kind == "import" else f"from {module} import {', '.join(names)}"
    return compile(text, FILE, "exec")


def is_of(unit: Any, step: Step) -> bool:
    """Whether a step is that import statement."""
    return step[0] != "package" and unit.module == step[1] and (step[0] == "import" or unit.names == step[2:])


def loaded(name: str) -> bool:
    """Whether an import of `name` finds it, and all packages above it, done."""
    while name:
        module = sys.modules.get(name)
        if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
            return False
        name = name.rpartition(".")[0]
    return True


def has(module: Any, names: tuple[str, ...]) -> bool:
    """Whether `from module import names` executes nothing: all are plain attributes of a plain module."""
    lookup: Any = type(module).__getattribute__
    if lookup is not ModuleType.__getattribute__:
        return not names
    space = vars(module)
    return all(name in space for name in names)


def rows_of_an_import(here: Callable[[], list[Any]]) -> list[Any]:
    """The stack above a module that `import_module` executes, as `here` reads it."""
    rows: list[Any] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            rows.extend(here())

    sys.meta_path.insert(0, Finder)
    try:
        importlib.import_module("masquerade_is_imported_here")
    except ImportError:
        pass
    finally:
        sys.meta_path.remove(Finder)
    return rows


#: Where the finders are defined that leave a package's modules to PathFinder. An editable install serves top-level
#: names alone.
_ORDINARY = ("masquerade", "_frozen_importlib", "_distutils_hack", "six", "__editable__")


def ordinary(finder: Any) -> bool:
    """Whether a finder leaves what lies in packages to PathFinder."""
    cls = finder if isinstance(finder, type) else type(finder)
    return str(getattr(cls, "__module__", "")).startswith(_ORDINARY)
