"""For tests written by hand: assertions about modules on machines that are not here, and records told in plain text."""

from __future__ import annotations

import atexit
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from masquerade import machines
from masquerade.report.text import clean, last_lines
from masquerade.stage.findings import NOBODY

if TYPE_CHECKING:
    from masquerade.contracts.project import Project
    from masquerade.machines import Machine
    from masquerade.stage import Check, Finding, Record, Stage
    from masquerade.stage.owners import Modules

__all__ = ["close", "ensure_lazy", "explain", "shared_stage"]

#: Packages that no stand-in stands for.
_MADE_HERE = ("torch", "triton")

_stages: dict[tuple[str | None, bool], Stage] = {}


def shared_stage(python: str | None = None, torch: bool = True) -> Stage:
    """The stage that all tests of this process share; it starts its server at its first check.

    A subject is looked for in the folders of this process's sys.path below the working directory, unless it names some.

    python: the subject's interpreter. torch: have torch preloaded, as a stage does; without it the server holds the
    standard library alone.
    """
    from masquerade.stage import Stage

    key = python, torch
    if key not in _stages:
        if not _stages:
            atexit.register(close)
        _stages[key] = Stage(python, torch=torch, path=_project_path())
    return _stages[key]


def _project_path() -> tuple[str, ...]:
    """The folders below the working directory on this process's sys.path: where pytest finds the project's modules."""
    here = os.getcwd()
    folders = (os.path.abspath(folder) for folder in sys.path if folder)
    return tuple(folder for folder in folders if (folder + os.sep).startswith(here + os.sep) and os.path.isdir(folder))


def close() -> None:
    """End the servers of the shared stages."""
    while _stages:
        _stages.popitem()[1].close()


def ensure_lazy(
    module: str,
    machine: str | Machine = "cpu",
    *,
    forbidden: Sequence[str] = (),
    owners: Mapping[str, Sequence[str]] | None = None,
    path: Sequence[str | os.PathLike[str]] = (),
    **options: Any,
) -> Record:
    """Assert that importing `module` on `machine` executes none of `forbidden`, nothing of another platform's, and
    touches no device.

    forbidden: dotted names; each stands for itself and all below it. A package of them that is not installed is there
    for this check, as a stand-in, so that a caught ImportError hides nothing. owners: platform -> names; without it the
    known vendor packages, and what the configuration names that is nearest to the calling file. path: folders for the
    module's sys.path; those of this process below the working directory without it. Other options are those of
    Stage.run. What lies below a package is not imported: name each module, or use a contract.

    Gives the record. Raises AssertionError, which names what was done, the line that did it and the imports that led
    there: a module that was executed, a device that was touched, an import that failed or ended the process. Raises
    ValueError for a name that its package lacks, and for one of the standard library: masquerade uses that itself and
    cannot see who else does; masquerade.contracts.ConfigurationError for owners of the configuration that cannot be, or
    that their package lacks; TypeError for an option that there is none of.
    """
    __tracebackhide__ = True
    from masquerade.contracts import find_project
    from masquerade.stage.owners import asked_of

    for name in forbidden:
        if name.partition(".")[0] in sys.stdlib_module_names:
            raise ValueError(
                f"forbidden={name!r}: the standard library is loaded beside every module; it cannot be watched"
            )
    project = find_project(_folder_of(sys._getframe(1))) if owners is None else None
    every = project.owners() if project is not None else owners or {}
    watched = {owner: tuple(name for name in names if name not in forbidden) for owner, names in every.items()}
    vendors = {name.partition(".")[0] for names in every.values() for name in names}
    # What torch itself imports is loaded where torch is: only a stage without it sees that executed.
    preloaded = {name.partition(".")[0] for name in forbidden} <= vendors
    stage = shared_stage(torch=preloaded)
    asked = _asked(stage, module, machine, owners={**every, NOBODY: tuple(forbidden)}, path=path, **options)
    modules = asked_of(stage.discover)
    _refuse_misnamed(asked, forbidden, owners or {}, project, modules)
    options["present"] = (*asked.present, *_missing_packages(asked, forbidden, modules))
    record = stage.run(module, machine, owners={**watched, NOBODY: tuple(forbidden)}, path=path, **options)
    broken = [finding for finding in record.findings if record.levels.get(finding.kind, "error") == "error"]
    if broken:
        foreign = dict.fromkeys(finding.what for finding in broken if finding.kind == "forbidden-import")
        touches = any(finding.kind in ("device-init", "fork-poison") for finding in broken)
        did = f"executes {', '.join(map(clean, foreign))}" if foreign else "touches a device" if touches else "fails"
        told = [f"importing {module} on {record.machine} {did}"]
        for finding in broken:
            told += [f"{finding.kind}  {clean(finding.what)}", *_rows(finding)]
        raise AssertionError("\n".join(told))
    return record


def _folder_of(frame: FrameType) -> str:
    """The folder of the code that calls, where it is a file; else the working directory."""
    file = frame.f_code.co_filename
    return os.path.dirname(os.path.abspath(file)) if os.path.isfile(file) else "."


def _asked(
    stage: Stage,
    module: str,
    machine: str | Machine,
    *,
    owners: Mapping[str, Sequence[str]],
    path: Sequence[str | os.PathLike[str]],
    **options: Any,
) -> Check:
    """The check that is to be made. Raises TypeError for an option that there is none of."""
    from masquerade.machines.errors import nearest
    from masquerade.stage import Check

    known = [field.name for field in dataclasses.fields(Check)]
    for option in options:
        if option not in known:
            near = nearest(option, ["machine", "forbidden", *known], 1)
            raise TypeError(f"ensure_lazy() has no option {option!r}{f'; did you mean {near[0]}?' if near else ''}")
    on = machines.resolve(machine) if isinstance(machine, str) else machine
    folders = tuple(os.fspath(folder) for folder in path) or stage.path
    return Check(module, on, owners=owners, path=folders, **{**options, "present": tuple(options.get("present", ()))})


def _refuse_misnamed(
    asked: Check,
    forbidden: Sequence[str],
    owners: Mapping[str, Sequence[str]],
    project: Project | None,
    modules: Modules,
) -> None:
    """Raises ValueError for names whose package lacks them: that they were not executed would say nothing."""
    from masquerade.stage.owners import missing

    named = {name: f"owners[{platform!r}]" for platform, names in owners.items() for name in names}
    named |= {name: f"forbidden={name!r}" for name in forbidden}
    if wrong := missing(named, [asked], modules):
        raise ValueError("\n".join(f"{named[name]}: {mend}" for name, mend in wrong.items()))
    if project is not None:
        project.refuse_missing([asked], modules)


def _missing_packages(asked: Check, forbidden: Sequence[str], modules: Modules) -> list[str]:
    """Packages of forbidden modules that are not installed: who catches their ImportError is seen where they are."""
    if asked.machine.platform == "here":
        return []
    spoken = {*asked.present, *asked.absent, *asked.stand_ins, *(asked.machine.packages.get("absent") or ())}
    tops = dict.fromkeys(name.partition(".")[0] for name in forbidden)
    return [top for top in tops if top not in spoken and top not in _MADE_HERE and not modules(top, asked.path)]


def explain(record: Record, title: str = "") -> str:
    """What a record found, as text: each finding with the line to mend and the imports that led there.

    Everything that the subject itself supplied is made safe to print. title: the first line; subject,
    machine and verdict without it.
    """
    rows = [title or f"{clean(record.subject)} on {record.machine}: {record.verdict}"]
    for finding in record.findings:
        if record.levels.get(finding.kind, "error") == "error":
            rows += [f"{finding.kind}  {clean(finding.what)}", *_rows(finding)]
    warned = [f for f in record.findings if record.levels.get(f.kind) == "warn"]
    rows += [f"warning: {warning(finding)}" for finding in warned]
    rows += [f"note: {clean(note)}" for note in record.notes]
    words = last_lines(record.output, 10) if record.failed else []
    return "\n".join([*rows, *(["last words:"] if words else []), *(f"  {word}" for word in words)])


def warning(finding: Finding) -> str:
    """One finding on one line."""
    return " ".join(filter(None, [finding.kind, clean(finding.what), f"at {finding.blame}" if finding.blame else ""]))


def _rows(finding: Finding) -> list[str]:
    rows = [f"  {clean(line)}" for line in finding.message.splitlines()[:20]]
    if finding.blame:
        rows.append(f"  {clean(str(finding.blame))}")
        if finding.blame.code:
            rows.append(f"    | {clean(finding.blame.code)}")
    way = [line for line in finding.chain if line != finding.blame]
    if way:
        rows.append("  by way of")
        rows += [f"    {clean(str(line))}" + (f"  | {clean(line.code)}" if line.code else "") for line in way]
    return rows
