"""Which names the body of a module binds, and where: what a half executed one has by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from masquerade.stage.sources import parsed


def bound_names(file: str) -> Iterator[tuple[str, int]]:
    """The names that the body of the module in `file` binds, and the last line of the statement that does so first."""
    try:
        with open(file, "rb") as source:
            tree = parsed(source.read())
    except (OSError, ValueError):
        return
    found: dict[str, int] = {}
    for statement in _statements(tree.body if tree is not None else []):
        for name in _binds(statement):
            found.setdefault(name, statement.end_lineno or statement.lineno)
    yield from found.items()


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(statement, part, ()):
                    yield from _statements(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
        else:
            yield statement


def _binds(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield (alias.asname or alias.name).partition(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
