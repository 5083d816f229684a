"""What torch brings along because it is built for one platform: nobody's fault on a machine of another one.

As it is imported, a build for CUDA executes cuda.bindings and loads libcublas. The machine's own build would not.
A stage has torch in its server before anything is watched; a test in disguise and a command import it themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from masquerade.stage.blame import Frame, Places, frames, tree_of
from masquerade.stage.sources import imported

Event = Mapping[str, Any]


def without_torchs_build(events: Sequence[Event], places: Places) -> list[Event]:
    """`events` without the packages that torch executes, and the libraries that it loads, while it is imported.

    The name of a file is not believed: the line in torch must import that package, and the library must be installed
    beside torch.
    """
    foreign = {event.get("file") for event in events if event["kind"] == "forbidden-import"}
    return [event for event in events if not _brought_along(event, foreign, places)]


def _brought_along(event: Event, foreign: set[Any], places: Places) -> bool:
    if event["kind"] not in ("forbidden-import", "forbidden-native"):
        return False
    stack = list(frames(event.get("stack") or ()))
    while stack and (stack[-1].file in foreign or places.in_stdlib(stack[-1].file)):
        stack.pop()  # what the package that was brought along does as it is executed
    by = _importing(stack, places)
    if by is None:
        return False
    if event["kind"] == "forbidden-import":
        return any(
            first <= by.line <= last and f"{name}.".startswith(f"{event['what']}.")
            for first, last, name in _imports(by.file)
        )
    return places.beside_torch(event.get("file", ""))


def _importing(stack: Sequence[Frame], places: Places) -> Frame | None:
    """The innermost frame of torch, where torch acts by itself while the import machinery executes a module of it.

    None where it acts for somebody who called it, as `torch.ops.load_library` does.
    """
    innermost: Frame | None = None
    for place in range(len(stack) - 1, 0, -1):
        frame = stack[place]
        if places.in_stdlib(frame.file):
            continue
        if not places.in_torch(frame.file):
            return None
        innermost = innermost or frame
        if frame.function == "<module>" and stack[place - 1].imports:
            return innermost
    return None


@lru_cache(maxsize=256)
def _imports(file: str) -> tuple[tuple[int, int, str], ...]:
    """(first line, last line, module) of each import statement of a file."""
    tree = tree_of(file)
    return tuple(
        (node.lineno, node.end_lineno or node.lineno, name)
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in imported(node)
    )
