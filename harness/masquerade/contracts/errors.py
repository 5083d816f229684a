"""What is wrong with a configuration or a golden file. Never said of a contract that is broken."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong in one place: the file, its line from 1 (0 for the whole file), the dotted key, and the mend."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigurationError(ValueError):
    """A configuration or a golden file cannot be used. `problems` holds all that is wrong, by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: (problem.file, problem.line)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def shown(file: str | os.PathLike[str]) -> str:
    """A file's name as messages give it: relative to the working directory where that is shorter."""
    path = os.path.abspath(file)
    try:
        return min(os.path.relpath(path), path, key=len)
    except ValueError:  # another drive
        return path
