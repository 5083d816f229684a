"""The mark `machine`: which machines a test is run on, and what else it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from masquerade import machines
from masquerade.machines import MachineError
from masquerade.machines.errors import UnknownMachineError
from masquerade.machines.owners import ANY

#: The argument that holds the machine's name; a fixture of this name gives the machine.
ARGUMENT = "masquerade_machine"

#: Seconds that a test in disguise may take if neither its mark nor pytest-timeout says: it may import torch.
TIMEOUT = 300.0

PROBLEMS: pytest.StashKey[list[str]] = pytest.StashKey()

#: The owners for marks that name none.
_OWNERS: pytest.StashKey[Mapping[str, Any]] = pytest.StashKey()

#: Who may own a module.
OWNERS = ("cuda", "rocm", "xpu", "cpu", ANY)

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
    """Raises pytest.UsageError that lists every mark that is wrong, or what is wrong with the project's owners."""
    problems = config.stash.get(PROBLEMS, [])
    marks = {item: mark for item in items if (mark := item.get_closest_marker("machine"))}
    for item, mark in marks.items():
        if hasattr(item, "callspec"):
            continue
        told = _problems(mark)
        if not told and len(mark.args) > 1:
            told = ["this kind of test cannot be parametrized; name one machine"]
        problems += [f"{item.nodeid}: @pytest.mark.machine: {problem}" for problem in told]
    if problems:
        raise pytest.UsageError("\n".join(dict.fromkeys(problems)))
    silent = dict.fromkeys(name for mark in marks.values() if "owners" not in mark.kwargs for name in mark.args)
    if silent:
        config.stash[_OWNERS] = _project_owners(config.rootpath, [machines.resolve(name) for name in silent])


def plan(item: pytest.Item) -> Plan:
    """The plan of a test whose mark has been checked."""
    mark = item.get_closest_marker("machine")
    assert mark is not None
    callspec = getattr(item, "callspec", None)
    name = callspec.params[ARGUMENT] if callspec else mark.args[0]
    options = mark.kwargs
    owners = options.get("owners")
    return Plan(
        machines.resolve(name),
        item.config.stash[_OWNERS] if owners is None else owners,
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
    owners = mark.kwargs.get("owners", {})
    out += _wrong_owners(owners)
    resolved = []
    for name in mark.args:
        if not isinstance(name, str):
            out.append(f"{name!r} is no machine's name")
            continue
        try:
            machine = machines.resolve(name)
            if mark.kwargs.get("present") or mark.kwargs.get("absent"):
                machine = machines.install(machine, mark.kwargs.get("present", ()), mark.kwargs.get("absent", ()))
            resolved.append(machine)
        except (UnknownMachineError, MachineError, ValueError) as error:
            out.append(str(error))
    return out or [f"owners: {mend}" for mend in _misnamed(owners, resolved)]


def _project_owners(root: Path, on: Sequence[machines.Machine]) -> Mapping[str, Any]:
    """Those that come with masquerade, and those of the root folder's configuration."""
    from masquerade.contracts import ConfigurationError, project_owners
    from masquerade.stage.check import Check

    try:
        project = project_owners(root)
        project.refuse_missing([Check("", machine, owners=project.all()) for machine in on], _modules)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    return project.all()


def _wrong_owners(owners: Mapping[Any, Any]) -> Iterator[str]:
    """What is wrong with the words that owners are named by."""
    for platform, names in owners.items():
        if platform not in OWNERS:
            yield f"owners: {platform!r} is no platform; {', '.join(OWNERS)} own modules"
        elif not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            yield f"owners[{platform!r}]={names!r} must be {_TEXTS}"


def _misnamed(owners: Mapping[str, Sequence[str]], on: Iterable[machines.Machine]) -> Iterable[str]:
    """Why nothing would be found of modules that are named: their package is there, and lacks them."""
    if not owners:
        return ()
    from masquerade.stage.check import Check
    from masquerade.stage.owners import missing

    named = {name for names in owners.values() for name in names}
    return missing(named, [Check("", machine, owners=owners) for machine in on], _modules).values()


def _modules(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """The modules of a package that this process would find."""
    from masquerade.stage import discovery

    return discovery.names(name)
