"""What can be wrong with a machine: a file that does not describe one, or a name that nobody described."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong in one place. `line` counts from 1; 0 where the source has no lines (a dict)."""

    origin: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.origin}:{self.line}" if self.line else self.origin
        return f"{place}: {self.message}"


class MachineError(ValueError):
    """A machine's description is not valid. `problems` holds every bad field, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.origin, problem.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownMachineError(LookupError):
    """No machine has this name. `nearest` holds the names that come closest, the best first."""

    def __init__(self, name: str, message: str, nearest: Iterable[str] = ()) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"{message}{hint}")


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known words that look most like `word`, the best first."""
    import difflib  # costs 5 ms, and is needed only on the way to an error

    return difflib.get_close_matches(word, list(known), n=count, cutoff=0.5)
