"""What each module's import can lead to: of all that was done before, what its answer can depend on."""

from __future__ import annotations

from typing import Any

from masquerade.stage.trace.ops import Op, Trace


class Reach:
    """`of` maps modules to the tokens that their imports can lead to: a set is a number, a token one of its bits.

    A token is a module, an operation that is done once for all who call a function, or a value that somebody sets.
    """

    def __init__(self, trace: Trace) -> None:
        self.bits: dict[Any, int] = {}
        self._values: dict[Any, int] = {}
        ops = [op for body in trace.bodies.values() for op in body.ops]
        self.shared = {id(effect) for op in ops for effect, _ in op.effects}
        for name in trace.bodies:
            self._bit(name)
        for each in [*ops, *(effect for op in ops for effect, _ in op.effects)]:
            if each.kind == "set":
                self._values[each.what[0]] = self._values.get(each.what[0], 0) | self._bit(each.what)
        self.of: dict[str, int] = {}
        leads: dict[str, set[str]] = {}
        for name, body in trace.bodies.items():
            asked: set[str] = set(with_above(name)[:-1])
            self.of[name] = self.bits[name]
            for op in body.ops:
                self.of[name] |= self._direct(op, asked)
            leads[name] = asked & trace.bodies.keys()
        self._spread(leads)

    def _bit(self, token: Any) -> int:
        return self.bits.setdefault(token, 1 << len(self.bits))

    def _direct(self, op: Op, asked: set[str]) -> int:
        """The tokens of one operation; the modules that it asks for come to `asked`."""
        mask = self._bit(id(op)) if id(op) in self.shared else 0
        if op.kind == "import":
            asked.update(with_above(op.what))
        elif op.kind == "needs":
            mask |= self.bits[op.what]
        elif op.kind in ("set", "get"):
            mask |= self._values.get(op.what[0], 0)
        for effect, _ in op.effects:
            mask |= self._direct(effect, asked)
        return mask

    def _spread(self, leads: dict[str, set[str]]) -> None:
        """Add what the modules that a module asks for lead to, until nothing is added."""
        changed = True
        while changed:
            changed = False
            for name in reversed(leads):
                mask = self.of[name]
                for other in leads[name]:
                    mask |= self.of[other]
                if mask != self.of[name]:
                    self.of[name], changed = mask, True


def with_above(name: str) -> list[str]:
    """The packages above a module, the outermost first, and itself."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
