"""The mark `machine`: which machines a test is run on, and what else it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from masquerade import machines
from masquerade.machines import MachineError
from masquerade.machines.errors import UnknownMachineError
from masquerade.pytest_plugin import owners

if TYPE_CHECKING:
    from masquerade.contracts.project import Project
    from masquerade.stage.check import Check

#: The argument that holds the machine's name; a fixture of this name gives the machine.
ARGUMENT = "masquerade_machine"

#: Seconds that a test in disguise may take if neither its mark nor pytest-timeout says: it may import torch.
TIMEOUT = 300.0

PROBLEMS: pytest.StashKey[list[str]] = pytest.StashKey()

#: Why a worker of pytest-xdist runs no marked test.
REFUSED: pytest.StashKey[str] = pytest.StashKey()

_TEXTS = "a list of names"
_OPTIONS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "owners": (Mapping, "a dict of platforms and lists of names"),
    "env": (Mapping, "a dict of variables; None unsets one"),
    "present": ((list, tuple), _TEXTS),
    "absent": ((list, tuple), _TEXTS),
    "packages": ((list, tuple), _TEXTS),
    "timeout": ((int, float), "a number of seconds"),
}


class Plan(NamedTuple):
    """How one test is disguised. `packages` are the packages under test; `timeout` None leaves it to pytest-timeout."""

    machine: machines.Machine
    owners: Mapping[str, Any]
    env: Mapping[str, str | None]
    present: tuple[str, ...]
    absent: tuple[str, ...]
    packages: tuple[str, ...]
    timeout: float | None


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make one test of each machine that the closest mark names."""
    mark = metafunc.definition.get_closest_marker("machine")
    if mark is None:
        return
    problems = _problems(mark)
    if problems:
        told = metafunc.config.stash.setdefault(PROBLEMS, [])
        told += [f"{metafunc.definition.nodeid}: @pytest.mark.machine: {problem}" for problem in problems]
        return
    if ARGUMENT not in metafunc.fixturenames:
        metafunc.fixturenames.append(ARGUMENT)
    metafunc.parametrize(ARGUMENT, mark.args, ids=[str(name) for name in mark.args], indirect=True)


def check(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raises pytest.UsageError that lists every mark that is wrong, and what is wrong with the project's owners.

    A worker of pytest-xdist, which would be lost with what it says, keeps that for each of its tests.
    """
    marks = {item: mark for item in items if (mark := item.get_closest_marker("machine"))}
    problems = [*config.stash.get(PROBLEMS, []), *_without_a_machine_each(marks)]
    told = "\n".join(dict.fromkeys(problems or _owners_of_projects(marks)))
    if told and hasattr(config, "workerinput"):
        config.stash[REFUSED] = told
    elif told:
        raise pytest.UsageError(told)


def _without_a_machine_each(marks: Mapping[pytest.Item, pytest.Mark]) -> Iterator[str]:
    """What is wrong with the marks of tests that were not parametrized."""
    for item, mark in marks.items():
        if hasattr(item, "callspec"):
            continue
        told = _problems(mark)
        if not told and len(mark.args) > 1:
            told = ["this kind of test cannot be parametrized; name one machine"]
        yield from (f"{item.nodeid}: @pytest.mark.machine: {problem}" for problem in told)


def _owners_of_projects(marks: Mapping[pytest.Item, pytest.Mark]) -> Iterator[str]:
    """What is wrong with the owners of configurations, which count for marks that name none."""
    from masquerade.contracts import ConfigurationError

    silent = {
        (item.path.parent, str((mark.args, mark.kwargs))): mark
        for item, mark in marks.items()
        if "owners" not in mark.kwargs
    }
    asked: dict[str, tuple[Project, list[Check]]] = {}
    for (folder, _), mark in silent.items():
        try:
            project = owners.of_project(folder)
        except ConfigurationError as error:
            yield str(error)
            continue
        every = project.owners()
        _, checks = asked.setdefault(project.file, (project, []))
        checks += [replace(check, owners=every) for check in _disguised(mark)]
    for project, checks in asked.values():
        yield from owners.misnamed_in(project, checks)


def plan(item: pytest.Item) -> Plan:
    """The plan of a test whose mark has been checked."""
    mark = item.get_closest_marker("machine")
    assert mark is not None
    callspec = getattr(item, "callspec", None)
    name = callspec.params[ARGUMENT] if callspec else mark.args[0]
    options = mark.kwargs
    named = options.get("owners")
    return Plan(
        machines.resolve(name),
        owners.of_project(item.path.parent).owners() if named is None else named,
        options.get("env", {}),
        tuple(options.get("present", ())),
        tuple(options.get("absent", ())),
        tuple(options.get("packages", ())),
        options.get("timeout"),
    )


def _problems(mark: pytest.Mark) -> list[str]:
    """What is wrong with a mark."""
    out = [] if mark.args else ["no machine is named; `masquerade machines` lists them"]
    if len(set(map(str, mark.args))) < len(mark.args):
        out.append("a machine is named twice")
    for key, value in mark.kwargs.items():
        kind, told = _OPTIONS.get(key, (object, ""))
        if not told:
            out.append(f"no option {key!r}; it takes {', '.join(_OPTIONS)}")
        elif not isinstance(value, kind):
            out.append(f"{key}={value!r} must be {told}")
    if out:
        return out
    out += owners.wrong(mark.kwargs.get("owners", {}))
    for name in mark.args:
        if not isinstance(name, str):
            out.append(f"{name!r} is no machine's name")
            continue
        try:
            machine = machines.resolve(name)
            if mark.kwargs.get("present") or mark.kwargs.get("absent"):
                machines.install(machine, mark.kwargs.get("present", ()), mark.kwargs.get("absent", ()))
        except (UnknownMachineError, MachineError, ValueError) as error:
            out.append(str(error))
    return out or list(owners.misnamed(mark.kwargs.get("owners", {}), _disguised(mark)))


def _disguised(mark: pytest.Mark) -> Iterator[Check]:
    """What a mark asks for, as checks without a subject: on each of its machines, with the packages that it names."""
    from masquerade.stage.check import Check

    present, absent = mark.kwargs.get("present", ()), mark.kwargs.get("absent", ())
    for name in mark.args:
        machine = machines.resolve(name)
        if present or absent:
            machine = machines.install(machine, present, absent)
        yield Check("", machine, owners=mark.kwargs.get("owners", {}))
