"""What a tool of the private folder runs: it loads the machine and lets the module of its name answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from ..world import NoAnswerError, UnknownValueError, World
from . import PROGRAMS

#: What a tool gives: what it writes on standard output, and its exit status.
Output = tuple[str, int]


def main(argv: Sequence[str]) -> None:
    """`argv` is the folder, the tool's name, and its arguments. Ends the process as the tool would."""
    folder, name, *arguments = argv
    with open(os.path.join(folder, "machine.json"), encoding="utf-8") as file:
        world = World(json.load(file))
    answer: Callable[[World, str, list[str]], Output] = import_module(f"{__package__}.{PROGRAMS[name]}").answer
    try:
        text, status = answer(world, name, arguments)
        sys.stdout.write(text)
        sys.stdout.flush()
    except (UnknownValueError, NoAnswerError) as error:
        sys.exit(f"{name}: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads any more, and that is no error
        status = 141
    sys.exit(status)
