"""Copies of an installed package in which a mend is undone: a statement of ours at the beginning of a function."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class UndoError(Exception):
    """A copy cannot be made; the text says which function is not there."""


@dataclass(frozen=True)
class Undo:
    """`statement` becomes the first one of `function` in `file`, which may be named as Class.method.

    Of several functions the first that is there counts: a later release may have another class for the same.
    """

    file: str
    functions: Sequence[str]
    statement: str


def undone(root: Path, folder: Path, undo: Undo) -> int:
    """Make a copy of the package of `undo.file`, which lies in `root`, in `folder`; gives the statement's line.

    All but the edited file is a link. Raises UndoError where none of the functions is there.
    """
    source = (root / undo.file).read_text(encoding="utf-8")
    body = next((found for name in undo.functions if (found := _body(source, name))), None)
    if body is None:
        raise UndoError(f"{undo.file} has no function {' or '.join(undo.functions)}: look where its mend is now")
    first = next((s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))), body[-1])
    lines = source.splitlines(keepends=True)
    lines.insert(first.lineno - 1, f"{' ' * first.col_offset}{undo.statement}\n")
    parts = Path(undo.file).parts
    for depth in range(1, len(parts)):
        above = Path(*parts[:depth])
        (folder / above).mkdir(parents=True)
        for entry in os.scandir(root / above):
            if entry.name not in ("__pycache__", parts[depth]):
                (folder / above / entry.name).symlink_to(entry.path)
    (folder / undo.file).write_text("".join(lines), encoding="utf-8")
    return first.lineno


def _body(source: str, name: str) -> list[ast.stmt] | None:
    found: list[ast.stmt] | None = ast.parse(source).body
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef)
        found = next((s.body for s in found or () if isinstance(s, kinds) and s.name == part), None)
    return found
