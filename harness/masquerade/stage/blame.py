"""From a stack to the line of the subject that one would edit, and to the chain of imports that led there."""

from __future__ import annotations

import ast
import linecache
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from masquerade.stage.places import INNOCENT
from masquerade.stage.record import Line
from masquerade.stage.sources import parsed

_CALLS_NOTHING = (ast.arguments, ast.arg, ast.Constant, ast.Name, ast.expr_context)

#: Larger sources are neither quoted nor parsed for decorators.
_PARSED = 8 * 1024 * 1024


class Frame(NamedTuple):
    """One row of a stack. `imports` says that the import machinery runs between this frame and the next."""

    file: str
    line: int
    function: str
    module: str
    imports: bool = False


def frames(rows: Iterable[Any]) -> tuple[Frame, ...]:
    """The frames of a stack as the log holds it, outermost first. Rows that are none are left out."""
    out: list[Frame] = []
    for row in rows:
        if row == 0:
            if out:
                out[-1] = out[-1]._replace(imports=True)
        elif (
            isinstance(row, list)
            and len(row) == 4
            and isinstance(row[1], int)
            and all(isinstance(row[place], str) for place in (0, 2, 3))
        ):
            out.append(Frame(row[0], row[1], row[2], row[3]))
    return tuple(out)


@dataclass(frozen=True)
class Places:
    """Which files are whose.

    subject: folders or files of the subject's top-level package. path: sys.path, for relative names.
    torch: folders of torch; a command may have several. stdlib: folders of the standard library. python: the version
    that ran the code.
    """

    subject: tuple[str, ...]
    path: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    stdlib: tuple[str, ...] = ()
    python: str = ""

    @cached_property
    def _torch(self) -> tuple[str, ...]:
        return tuple(folder + os.sep for folder in self.torch)

    def in_subject(self, file: str) -> bool:
        return any(file == place or file.startswith(place.rstrip(os.sep) + os.sep) for place in self.subject)

    def outer(self, stack: Sequence[Frame]) -> Sequence[Frame]:
        """`stack` without the line that started the server."""
        first = 0
        while first < len(stack) and stack[first].file == "<string>" and stack[first].module == "__main__":
            first += 1
        return stack[first:]

    def in_torch(self, file: str) -> bool:
        return file.startswith(self._torch)

    def in_stdlib(self, file: str) -> bool:
        if file.startswith("<frozen"):
            return True
        inside = any(file.startswith(folder + os.sep) for folder in self.stdlib)
        return inside and "site-packages" not in file and "dist-packages" not in file

    def beside_torch(self, file: str, package: str = "") -> bool:
        """Whether a file lies in the folder of packages that torch is installed in, or in this one of them."""
        return any(file.startswith(os.path.join(os.path.dirname(torch), package, "")) for torch in self.torch)

    def in_triton(self, file: str) -> bool:
        return self.beside_torch(file, "triton")

    def relative(self, file: str) -> str:
        """`file` as it stands below the subject's root or a folder of sys.path; unchanged where it lies below none."""
        roots = [os.path.dirname(place.rstrip(os.sep)) for place in self.subject]
        for root in (*roots, *sorted(self.path, key=len, reverse=True)):
            if root and file.startswith(root.rstrip(os.sep) + os.sep):
                return file[len(root.rstrip(os.sep)) + 1 :]
        return file

    def at(self, frame: Frame) -> int:
        """The line of a frame. Where a decorator is used, Python 3.10 names the line of the `def`: the decorator's."""
        old = self.python.startswith("3.10.")
        return _plain_heads(frame.file).get(frame.line, frame.line) if old and frame.function else frame.line

    def line(self, frame: Frame) -> Line:
        line = self.at(frame)
        return Line(self.relative(frame.file), line, source_line(frame.file, line), frame.module)


class CommandPlaces(Places):
    """For a whole command: the subject is all code but the standard library's and that of installed packages."""

    def in_subject(self, file: str) -> bool:
        if self.in_torch(file) or self.in_stdlib(file) or file.startswith("<frozen"):
            return False
        return "site-packages" not in file and "dist-packages" not in file

    def outer(self, stack: Sequence[Frame]) -> Sequence[Frame]:
        return stack


@lru_cache(maxsize=4096)
def _is_source(file: str) -> bool:
    """Whether `file` may be read for its lines: a subject names files as it likes, devices and pipes among them."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= _PARSED


def source_line(file: str, line: int) -> str:
    """The text of one line, without indentation; "" where it cannot be had."""
    return linecache.getline(file, line).strip()[:300] if line > 0 and _is_source(file) else ""


def tree_of(file: str) -> ast.Module | None:
    """What `file` says; None where it cannot be had or is no Python."""
    if not _is_source(file):
        return None
    try:
        with open(file, "rb") as source:
            return parsed(source.read())
    except OSError:
        return None


@lru_cache(maxsize=256)
def _decorator_lines(file: str) -> frozenset[int]:
    """Lines of `file` that are part of a decorator."""
    tree = tree_of(file)
    lines: set[int] = set()
    for node in ast.walk(tree) if tree is not None else ():
        for decorator in getattr(node, "decorator_list", ()):
            lines.update(range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1))
    return frozenset(lines)


@lru_cache(maxsize=256)
def _plain_heads(file: str) -> Mapping[int, int]:
    """The line of each `def` that has one decorator, and nothing else in it that calls anything -> the decorator's."""
    tree = tree_of(file)
    return {
        node.lineno: node.decorator_list[0].lineno
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and len(node.decorator_list) == 1
        and node.body[0].lineno > node.lineno
        and all(isinstance(part, _CALLS_NOTHING)
                for head in (node.args, node.returns) for part in (ast.walk(head) if head else ()))
    }  # fmt: skip


@lru_cache(maxsize=256)
def _class_at(file: str, line: int) -> str:
    """The innermost class of `file` around `line`, by its own name; "" where there is none."""
    tree = tree_of(file)
    around = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno).name if around else ""


def past_decorators(file: str, line: int) -> int:
    """The line of a `def` whose code begins at `line`, where its decorators begin."""
    decorators = _decorator_lines(file)
    while line in decorators:
        line += 1
    return line


def blamed(stack: Sequence[Frame], places: Places) -> Frame | None:
    """The subject's innermost frame; a decorator's use rather than the decorator's own code."""
    own = [frame for frame in stack if places.in_subject(frame.file)]
    if not own:
        return None
    for frame in reversed(own[:-1]):
        if places.at(frame) in _decorator_lines(frame.file):
            return frame
    return own[-1]


def chain(stack: Sequence[Frame], places: Places) -> tuple[Line, ...]:
    """Every import on the way, the statements of modules that called on, and the innermost line that is not torch's."""
    outside = [f for f in stack if not places.in_stdlib(f.file)]
    rest = [f for f in outside if not places.in_torch(f.file)]
    links = [f for f in outside if f.imports or (f.function == "<module>" and not places.in_torch(f.file))]
    own = blamed(stack, places)
    for last in (own, rest[-1] if rest else None):
        if last is not None and last not in links:
            links.append(last)
    order = {id(frame): place for place, frame in enumerate(stack)}
    links.sort(key=lambda frame: order.get(id(frame), 0))
    # A comprehension has a frame of its own, on the line that holds it.
    return tuple(line for line, _ in groupby(places.line(frame) for frame in links))


def probe_name(stack: Sequence[Frame], places: Places, probe: str) -> str:
    """The function of torch that foreign code called: the outermost frame of the innermost run of torch's frames."""
    outermost: Frame | None = None
    for frame in reversed(stack):
        if places.in_torch(frame.file):
            outermost = frame
        elif not places.in_stdlib(frame.file):
            break
    if outermost is None:
        return probe
    if outermost.function.startswith("__"):
        # An object is made or used: by the name of its class.
        made = _class_at(outermost.file, outermost.line)
        return f"{outermost.module}.{made}" if made else probe
    if outermost.function == "<module>":
        return outermost.module
    return f"{outermost.module}.{outermost.function}"


def actor(stack: Sequence[Frame], places: Places) -> str:
    """Who acts, by the innermost frame that tells: `torch` for torch's or Triton's own code.

    A module of the standard library that is more than a pair of hands (platform, ctypes.util) is named itself. Else it
    is the module that calls the standard library.
    """
    for frame in reversed(stack):
        if frame.module in INNOCENT:
            return frame.module
        if places.in_torch(frame.file) or places.in_triton(frame.file):
            return "torch"
        if not places.in_stdlib(frame.file):
            return frame.module or "?"
    return "?"
