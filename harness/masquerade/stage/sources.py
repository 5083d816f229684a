"""Sources as syntax trees, from as many threads at once as callers have."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()

#: Attempts, where a thread that is not ours parses at the same moment.
_ATTEMPTS = 5


def imported(statement: ast.AST) -> list[str]:
    """The modules that a statement may import, by their absolute names; of `from a import b` both a and a.b."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        return [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    return []


def parsed(source: str | bytes) -> ast.Module | None:
    """The syntax tree of a source; None for one that Python cannot parse.

    CPython 3.11 to 3.11.7 counts the depth of all trees of a process in one place: two threads that build one at the
    same time can end with SystemError, "AST constructor recursion depth mismatch" (python/cpython#106905).
    """
    with _ONE_AT_A_TIME:
        for _ in range(_ATTEMPTS):
            try:
                return ast.parse(source)
            except SystemError:
                continue
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                break
    return None
