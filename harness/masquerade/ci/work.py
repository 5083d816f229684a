"""What a project has that CI can run: its tox environments, or its contracts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Source = Literal["tox", "contracts"]

#: What a name may hold that goes into a pipeline: it is neither an expression, nor a word of a shell, nor markup.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

_SECONDS = 300.0  # tox may have to install plugins first

#: Versions of Python for a job, the first that a project admits: those that torch and Triton have wheels for.
_PYTHONS = ("3.12", "3.13", "3.11", "3.10", "3.14")


class PlanError(ValueError):
    """A pipeline cannot be made; the message says what is missing and how to mend it."""


def source_of(root: Path) -> Source:
    """`tox` where the project has a configuration of it, else `contracts`.

    Raises: PlanError if it has neither.
    """
    if _has_tox(root):
        return "tox"
    if any((root / file).is_file() for file in ("masquerade.toml", "pyproject.toml")):
        return "contracts"
    raise PlanError(f"{root} has neither tox environments (tox.ini, tox.toml) nor contracts (masquerade.toml)")


def python_of(root: Path) -> str:
    """A version of Python that the project in `root` runs on, by requires-python of its pyproject.toml.

    Raises: PlanError if that is none, or admits no version that is known here.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from masquerade.machines.errors import MachineError
    from masquerade.machines.reading import read_toml

    file = root / "pyproject.toml"
    try:
        project = read_toml(file.read_text(encoding="utf-8"), str(file)).get("project") if file.is_file() else {}
        wanted = project.get("requires-python", "") if isinstance(project, dict) else ""
        admits = SpecifierSet(str(wanted))
    except (MachineError, InvalidSpecifier, OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{file}: requires-python cannot be read: {error}; --python names a version") from None
    for version in _PYTHONS:
        if any(f"{version}.{patch}" in admits for patch in (0, 99)):
            return version
    oldest_first = ", ".join(sorted(_PYTHONS, key=lambda version: int(version.partition(".")[2])))
    raise PlanError(f"{file}: requires-python {wanted!r} admits none of {oldest_first}; --python names a version")


def _has_tox(root: Path) -> bool:
    marks = {"tox.ini": "[tox", "tox.toml": "", "setup.cfg": "[tox:", "pyproject.toml": "[tool.tox"}
    files = ((root / name, mark) for name, mark in marks.items())
    return any(file.is_file() and mark in file.read_text(encoding="utf-8", errors="replace") for file, mark in files)


def tox_environments(root: Path, label: str | None = None) -> tuple[str, ...]:
    """The names that `tox list` gives, in its order; of one of its labels if given.

    Raises: PlanError if tox is not there, fails, or knows none.
    """
    # A folder of its own: the project's may be locked by the tox that runs this, and stays as it is.
    with tempfile.TemporaryDirectory(prefix="masquerade-tox-") as folder:
        done = _tox(["list", "--quiet", "--no-desc", "--workdir", folder, *(["-m", label] if label else [])], root)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise PlanError(f"tox list failed in {root}: {said[-1] if said else f'exit status {done.returncode}'}")
    names = tuple(line.strip() for line in done.stdout.splitlines() if line.strip())
    if not names:
        raise PlanError(f"tox knows no environment{f' with the label {label}' if label else ''} in {root}")
    for name in names:
        if not NAME.fullmatch(name):
            raise PlanError(f"tox list says {name!r}, which is no name of an environment")
    return names


def _tox(words: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
    # On PATH, or beside this interpreter, whose folder need not be there.
    program = shutil.which("tox") or shutil.which("tox", path=os.path.dirname(sys.executable))
    if program is None:
        raise PlanError("tox is not installed; its environments are asked of it: pip install tox")
    command = [program, *words]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise PlanError(f"tox list did not end within {_SECONDS:.0f} s in {root}") from None


def contract_names(root: Path) -> tuple[str, ...]:
    """The names of the contracts, in the order of the configuration.

    Raises: masquerade.contracts.ConfigurationError.
    """
    from masquerade.contracts import load

    return tuple(contract.name for contract in load(root).contracts)
