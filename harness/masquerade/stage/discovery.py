"""Finds the modules of a package by looking at its folders. Imports none of them."""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.util
import mmap
import os
import pkgutil
from collections.abc import Iterator, Sequence
from typing import Any

_SUFFIXES = tuple(importlib.machinery.all_suffixes())


def _module_name(file: str) -> str:
    """The module that a file in a package holds; "" for other files."""
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if file.endswith(suffix):
            return file[: -len(suffix)]
    return ""


def _below(folder: str, prefix: str, notes: dict[str, None], seen: set[str]) -> Iterator[str]:
    """Names of all modules in `folder`, which is the package `prefix`."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    try:
        # Links come last: what they lead to keeps its own name.
        entries = sorted(os.scandir(folder), key=lambda entry: (entry.is_symlink(), entry.name))
    except OSError as error:
        notes[f"{prefix}: {error.strerror}: {folder}"] = None
        return
    for entry in entries:
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError as error:
            notes[f"{prefix}: {error.strerror}: {entry.path}"] = None
            continue
        if is_folder:
            if entry.name == "__pycache__" or not entry.name.isidentifier():
                continue
            inner = list(_below(entry.path, f"{prefix}.{entry.name}", notes, seen))
            if _is_package(entry.path) or inner:
                yield f"{prefix}.{entry.name}"
                yield from inner
            continue
        name = _module_name(entry.name) if is_file else ""
        if name == "__main__":
            notes[f"{prefix}.__main__ is not imported: it is a program"] = None
        elif name and name != "__init__":
            if not _is_python(entry.path, name):
                continue
            if name.isidentifier():
                yield f"{prefix}.{name}"
            else:
                notes[f"{os.path.join(folder, entry.name)} has no name that an import statement can say"] = None


def _is_python(file: str, name: str) -> bool:
    """Whether a file with a module's suffix is a module: of shared libraries only those that have its entry point."""
    if not file.endswith((".so", ".pyd")):
        return True
    try:
        with open(file, "rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"PyInit_" + name.encode()) >= 0
    except (OSError, ValueError):  # an empty file cannot be mapped
        return False


def _is_package(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, "__init__" + suffix)) for suffix in _SUFFIXES)


def _locate(name: str, path: Sequence[str] | None = None) -> tuple[list[str], str]:
    """(folders of a package, file of a module): one of the two is empty; both for what does not exist."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top) if path is None else importlib.machinery.PathFinder.find_spec(top, path)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return [], ""
    folders = list(spec.submodule_search_locations or ())
    file = spec.origin or ""
    for part in rest:
        inner = [os.path.join(folder, part) for folder in folders if os.path.isdir(os.path.join(folder, part))]
        files = [
            os.path.join(folder, part + suffix)
            for folder in folders
            for suffix in _SUFFIXES
            if os.path.isfile(os.path.join(folder, part + suffix))
        ]
        folders, file = inner, (files[0] if files and not inner else "")
        if not inner and not files:
            return [], ""
    return folders, file


def there(name: str) -> bool:
    """Whether there is such a module."""
    return _locate(name) != ([], "")


def names(name: str, path: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of a package's modules, or of the module alone; none where it is not there.

    path: the folders to look in; where this interpreter looks without it.
    """
    return tuple(_modules(name, *_locate(name, path), {}))


def _modules(name: str, folders: Sequence[str], file: str, notes: dict[str, None]) -> dict[str, None]:
    # A module may have a source and a compiled file, and a namespace package several folders.
    modules = {name: None} if folders or file else {}
    seen: set[str] = set()
    for folder in folders:
        modules.update(dict.fromkeys(_below(folder, name, notes, seen)))
    return modules


def source(name: str, path: Sequence[str] | None = None) -> str:
    """The source file of a module in these folders; "" where it has none."""
    folders, file = _locate(name, path)
    files = [os.path.join(folder, "__init__.py") for folder in folders] if folders else [file]
    return next((each for each in files if each.endswith(".py") and os.path.isfile(each)), "")


def find(name: str) -> dict[str, Any]:
    """{"modules": [...], "notes": [...], "root": folder} of a package or module.

    If there is none, "within" is the part of the name that there is, and "near" holds what may have been meant.
    """
    folders, file = _locate(name)
    if not folders and not file:
        return {"modules": [], "notes": [], "root": "", **_instead(name)}
    notes: dict[str, None] = {}
    modules = _modules(name, folders, file, notes)
    root = folders[0] if folders else file
    for _ in name.split("."):
        root = os.path.dirname(root)
    return {"modules": list(modules), "notes": list(notes), "root": root}


def _instead(name: str) -> dict[str, Any]:
    """What there is of a name that is not there, and the nearest names in it."""
    parent = name.rpartition(".")[0]
    folders: list[str] = []
    while parent:
        folders, file = _locate(parent)
        if file and not folders:  # a module holds no modules: what follows may be a function
            return {"within": parent, "near": [f"{parent}:{name[len(parent) + 1 :]}"]}
        if folders:
            break
        parent = parent.rpartition(".")[0]
    prefix = f"{parent}." if parent else ""
    wrong = prefix + name[len(prefix) :].partition(".")[0]
    known = {prefix + module.name for module in pkgutil.iter_modules(folders if parent else None)}
    near = difflib.get_close_matches(wrong, sorted(known), n=3, cutoff=0.5)
    return {"within": parent, "near": near or ([parent] if parent else [])}
