"""Foreign modules: code of a module that another platform owns was executed.

What is executed decides. The audit event `exec` shows every code object that the import machinery, runpy or a subject
runs, under whatever name and through whatever finder; a search by find_spec runs nothing and raises no such event.
Compiled modules raise the event `import` with their file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Mapping, Sequence
from types import CodeType
from typing import Any

from masquerade.watch.audit import Handler
from masquerade.watch.recorder import Recorder

SUFFIXES = (".py", ".pyc", ".so", ".pyd")

#: The owner of what is nobody's: it takes a part of an owned package out again.
ANY = "any"


def _stem(file: str) -> str:
    """`file` without suffix and closing `/__init__`: pkg/mod.cpython-311-x86_64-linux-gnu.so -> pkg/mod."""
    folder, _, name = file.rpartition("/")
    stem = name.split(".", 1)[0]
    return folder if stem == "__init__" else f"{folder}/{stem}"


def owner_of(name: str, owned: Container[str]) -> str:
    """The longest entry of `owned` that is `name` or a dotted parent of it; "" if there is none."""
    while name:
        if name in owned:
            return name
        name = name.rpartition(".")[0]
    return ""


def executed_names(name: str, file: str, roots: Sequence[str]) -> tuple[str, ...]:
    """The absolute dotted names that the executed `file` may stand for.

    Its own name where the file lies as that name says (`pkg.mod` in .../pkg/mod.py); otherwise, for a file run under
    another name, what the folders of sys.path make of it.
    """
    stem = _stem(file)
    if name and stem.endswith("/" + name.replace(".", "/")):
        return (name,)
    above = [root for root in roots if root and stem.startswith(root.rstrip("/") + "/")]
    found = tuple(stem[len(root) :].strip("/").replace("/", ".") for root in above)
    return found or ((name,) if name and name.rpartition(".")[2] == stem.rpartition("/")[2] else ())


def handlers(recorder: Recorder, owners: Mapping[str, Sequence[str]], platform: str) -> dict[str, Handler]:
    """Handlers that note `forbidden-import` for modules of `owners` that belong to another platform than `platform`.

    Of all entries the longest one that matches tells: a part may have another owner than its package, several, or
    "any". No handlers where nothing is foreign.
    """
    owned: dict[str, list[str]] = {}
    for owner, entries in owners.items():
        for entry in entries:
            owned.setdefault(entry, []).append(owner)
    foreign = {entry: " and ".join(of) for entry, of in owned.items() if not {platform, ANY} & {*of}}
    if not foreign:
        return {}
    note, getframe, kind, string = recorder.note, sys._getframe, type, str
    tails = frozenset(part for entry in foreign for part in entry.split("."))
    path, getcwd = sys.path, os.getcwd

    def roots() -> list[str]:
        return [entry or getcwd() for entry in path if kind(entry) is string]

    def judge(name: str, file: str) -> None:
        # Most files are nobody's: no component of their path is a component of a foreign name.
        if tails.isdisjoint(_stem(file).split("/")) and tails.isdisjoint(name.split(".")):
            return
        for candidate in executed_names(name, file, roots()):
            entry = owner_of(candidate, owned)
            if entry in foreign:
                note("forbidden-import", entry, module=candidate, owner=foreign[entry], file=file)
                return

    def executed(args: tuple[Any, ...]) -> None:
        code = args[0]
        if kind(code) is not CodeType or code.co_name != "<module>":
            return
        file, name = code.co_filename, ""
        try:
            frame = getframe(2)
            for _ in range(4):
                if frame is None or frame.f_code.co_filename[:18] != "<frozen importlib.":
                    break
                module = frame.f_locals.get("module")
                spec = getattr(module, "__spec__", None)
                if spec is not None:
                    name = spec.name if kind(spec.name) is string else ""
                    file = spec.origin if kind(spec.origin) is string else file
                    break
                frame = frame.f_back  # type: ignore[assignment]
        except Exception:
            pass  # the code's own file name is left to judge by
        judge(name, file)

    def loaded(args: tuple[Any, ...]) -> None:
        name, file = args[0], args[1]
        if kind(name) is string and kind(file) is string:
            judge(name, file)

    return {"exec": executed, "import": loaded}
