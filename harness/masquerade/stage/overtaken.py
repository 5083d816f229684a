"""For whom an import that was made ahead of its turn is not what it would be in its turn.

A module goes along where nothing that would come before that import can tell. Told apart are those that
- would enter a circle of imports at another place, for who enters it first finds the others half made;
- would begin a module of an event by another way: the event would have another chain;
- name, in what would come before, a function that led to an event, an attribute that the import replaces, or an
  environment variable that it sets: who asks first does what others find done.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from masquerade.stage.ahead import Way
from masquerade.stage.places import INNOCENT
from masquerade.stage.steps import FILE

Functions = Mapping[str, Mapping[str, Any]]


class Seen(NamedTuple):
    """What an import made ahead of its turn did that others could tell: circles, modules of events, and names."""

    circles: tuple[tuple[str, ...], ...] = ()
    modules: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    exempt: frozenset[str] = frozenset()


class Overtaken:
    """Looks at one import while it is made, and tells afterwards for whom it may be made ahead."""

    def __init__(self, looks: bool = False) -> None:
        self._looks = looks
        #: Modules that were asked for and not there, in that order.
        self.asked: dict[str, None] = {}
        self._circles: list[dict[str, None]] = []
        self._modules: set[str] = set()
        self._names: set[str] = set()
        self._doers: set[str] = set()
        self._before = _functions() if looks else {}

    def event(self, kind: str, what: str, level: str, frame: FrameType | None, own: Collection[str]) -> None:
        """An event came, at `frame`. `own` are the top-level names of the subject.

        The line that is blamed is the innermost of the subject's. It is another one where somebody else calls the same
        function, or imports the same module, of another project first.
        """
        if not self._looks:
            return
        if kind == "stand-in" or (kind == "touch" and level not in ("fork-poison", "device-init")):
            return  # no finding comes of it
        if kind == "env-mutation":
            self._names.add(what)
        library = None
        names: set[str] = set()
        while frame is not None and frame.f_code.co_filename != FILE:
            module = frame.f_globals.get("__name__")
            top = module.partition(".")[0] if isinstance(module, str) else ""
            if kind == "subprocess" and module in INNOCENT:
                return
            if top in own:
                self._doers.add(str(module))
                if frame.f_code.co_name == "<module>":
                    self._names |= names | set(_called(library))
                return
            if top in sys.stdlib_module_names:
                library = frame if top != "importlib" else library  # of the library's own the one that others call
            elif top != "masquerade":
                names.update(_called(library))
                library = None
                if frame.f_code.co_name == "<module>":
                    self._modules.add(str(module))
                else:
                    names.update(_called(frame))
            frame = frame.f_back

    def waited_for(self, name: str) -> None:
        """`name` was asked for and is half made."""
        if not self._looks:
            return
        inside: list[str] = []
        for other in reversed(self.asked):
            if _half_made(other):
                inside.append(other)
            if other == name:
                break
        else:
            inside.append(name)
        joined = dict.fromkeys(reversed(inside))
        apart = []
        for circle in self._circles:
            if circle.keys() & joined.keys():
                joined = {**circle, **joined}
            else:
                apart.append(circle)
        self._circles = [*apart, joined]

    def seen(self) -> Seen:
        """What is to be known of the import, now that it is made."""
        place = {name: number for number, name in enumerate(self.asked)}
        circles = tuple(
            tuple(sorted(circle, key=lambda name: place.get(name, -1))) for circle in self._circles if len(circle) > 1
        )
        replaced = _replaced(self._before)
        # Who replaces a function names it, and replaces it whenever he comes.
        hands = [by for by in replaced.values() if isinstance(by, FunctionType)]
        self._doers.update(str(by.__globals__.get("__name__")) for by in hands)
        names = {name for name in (*self._names, *replaced) if name.isidentifier()}
        return Seen(circles, frozenset(self._modules), frozenset(names), frozenset(self._doers))


def _called(frame: FrameType | None) -> list[str]:
    """The names by which a source would call the function of `frame`."""
    if frame is None:
        return []
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    if code.co_name == "__getattr__":
        # A module's or an object's: it is asked for by the attribute's name.
        asked = frame.f_locals.get(code.co_varnames[code.co_argcount - 1]) if code.co_argcount else None
        return [asked] if type(asked) is str else []
    if code.co_name.startswith("__"):
        return [type(first).__name__, first.__name__ if type(first) is type else ""]
    return [code.co_name]


class Along:
    """Tells which modules may have `goal` executed before they begin. `text` gives the source of a module."""

    def __init__(self, seen: Seen, text: Callable[[str], str]) -> None:
        self._seen, self._text = seen, text
        self._names = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(seen.names))) or '(?!)'})\b")
        self._told: dict[tuple[str, int], bool] = {}

    def goes(self, module: str, way: Way) -> bool:
        """Whether `module` may, which comes to it by `way`."""
        place = {name: number for number, name in enumerate(way.before)}
        for circle in self._seen.circles:
            # Who comes to the import alone enters all circles as the import does.
            first = min((name for name in circle if name in place), key=place.__getitem__, default=circle[0])
            if first != circle[0] or module in circle:
                return False
        before = [name for name in way.before if name not in self._seen.exempt]
        if not self._seen.modules.isdisjoint(before):
            return False
        # What a module on the way to the import does further down comes after it anyway.
        under_way = {came.importer: came.line for came in way.rows}
        return not any(self._could_tell(name, under_way.get(name, 0)) for name in before)

    def _could_tell(self, module: str, end: int) -> bool:
        """Whether `module` names what the import did in what it executes, up to line `end` where that is not 0."""
        found = self._told.get((module, end))
        if module.partition(".")[0] in sys.stdlib_module_names:
            return False
        if found is None:
            text = self._text(module)
            if end:
                text = "".join(text.splitlines(keepends=True)[: end - 1])
            found = bool(self._names.search(text)) and bool(self._names.search(executed(text)))
            self._told[module, end] = found
        return found


def executed(text: str) -> str:
    """The lines of a source that an import executes: those of a function where they name it, and no other's."""
    out: list[str] = []
    bodies: dict[str, list[str]] = defaultdict(list)
    inside, deep = out, -1
    for line in text.split("\n"):
        code = line.lstrip()
        if deep >= 0 and code and len(line) - len(code) <= deep and not code.startswith((")", "]", "}")):
            inside, deep = out, -1
        found = _DEF.match(line) if deep < 0 else None
        if found is not None:
            inside, deep = bodies[found[2]], len(found[1])
            out.append(line.replace(found[2], "", 1))
        else:
            inside.append(line)
    new = out
    while new:
        text = "\n".join(new)
        new = []
        for name in [name for name in bodies if re.search(rf"\b{name}\b", text)]:
            new += bodies.pop(name)
        out += new
    return "\n".join(out)


#: A function, whose body is indented further.
_DEF = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")


def _half_made(name: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


#: The modules by whose functions events come; the others may be changed by whoever likes.
_TELLING = ("builtins", "importlib", "os", "subprocess", "sys", "threading", "torch", "torch.accelerator", "torch.cuda",
            "torch.version", "torch.xpu", "triton")  # fmt: skip


_CALLED = (FunctionType, BuiltinFunctionType, type)


def _functions() -> Functions:
    """The functions and classes through which events come, by module and name."""
    loaded = {name: sys.modules.get(name) for name in _TELLING}
    return {
        name: {key: value for key, value in list(vars(module).items()) if isinstance(value, _CALLED)}
        for name, module in loaded.items()
        if isinstance(module, ModuleType)
    }


def _replaced(before: Functions) -> dict[str, Any]:
    """The functions and classes that are others now than `before`, by another project's hand, by name.

    Of a module that was not there before: of those that are another project's, which is none of the standard library.
    """
    out: dict[str, Any] = {}
    for name, functions in _functions().items():
        top, known = name.partition(".")[0], before.get(name)
        for key, now in functions.items():
            by = _project(now)
            if known is None:
                strange = bool(by) and by != top and by not in sys.stdlib_module_names
            else:
                strange = known.get(key, now) is not now and by != top
            if strange:
                out[key] = now
    return out


def _project(function: Any) -> str:
    """The top-level module whose code a function is; of a class, the one that it names."""
    if isinstance(function, FunctionType):
        return str(function.__globals__.get("__name__", "")).partition(".")[0]
    return str(getattr(function, "__module__", "")).partition(".")[0] if isinstance(function, type) else ""
