"""Runs the steps of a probe in this process: each is evaluated, and gives a value or an error, and its warnings."""

from __future__ import annotations

import ast
import importlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import plain

#: Modules that a step may name without importing them, and what belongs to them.
MODULES = {
    "pynvml": (),
    "amdsmi": (),
    "triton": ("triton.backends", "triton.compiler", "triton.runtime", "triton.testing"),
    "torch": ("torch.utils._triton",),
}

Answer = dict[str, Any]


def run_all(steps: Sequence[str]) -> Iterator[Answer]:
    """The answers of the steps, one after the other."""
    names: dict[str, Any] = {"os": os, "sys": sys, "run": run, "nvml": nvml, "kind": plain.type_name}
    names["forked"] = forked
    for step in steps:
        yield evaluate(step, names)


def evaluate(step: str, names: dict[str, Any]) -> Answer:
    """What one step answers: {"value": repr} or {"error": type, "message": text}, and its "warnings" if any."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer: Answer = {"value": plain.answer(_value(step, names))}
        except Exception as error:
            answer = plain.error(error)
    said = [f"{warning.category.__name__}: {plain.text(str(warning.message))}" for warning in caught]
    return {**answer, "warnings": list(dict.fromkeys(said))} if said else answer


def _value(step: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(step)
    for name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & MODULES.keys():
        names[name] = importlib.import_module(name)
        for part in MODULES[name]:
            if part in step:
                importlib.import_module(part)
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        return eval(compile(step, "<probe>", "eval"), names)
    exec(compile(step, "<probe>", "exec"), names)
    return None


def run(command: str) -> tuple[int, str]:
    """Exit status and standard output of a command."""
    done = subprocess.run(command.split(), capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout


def nvml(name: str, *arguments: Any) -> Any:
    """The function `name` of NVML for the first card."""
    import pynvml

    pynvml.nvmlInit()
    return getattr(pynvml, name)(pynvml.nvmlDeviceGetHandleByIndex(0), *arguments)


class Told(str):
    """A text that is an answer already: it is its own repr."""

    def __repr__(self) -> str:
        return str(self)


def forked(step: str) -> Told:
    """What a child of this process answers to a step."""
    answer = in_fork(lambda: evaluate(step, {"os": os}))
    return Told(answer.get("value") or "{error}: {message}".format(**answer))


def in_fork(function: Callable[[], Answer]) -> Answer:
    """The answer that `function` gives in a child, or how the child ended without one."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 and newer warn of a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)  # nobody waits for a child that hangs
            os.write(writer, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(said) if said else {"error": "no answer", "message": f"ended with status {status}"}
