"""The faults of fixtures/regressions: each a patch of kernels/blockscale, and an entry that says who must see it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / "fixtures" / "regressions"
PACKAGE = ROOT / "kernels" / "blockscale"


class FaultError(Exception):
    """An entry or a patch that cannot be used; the text says what to mend."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault and who must see it.

    origin: the pull request where it was seen, or own. suite: the folder of a masquerade.toml, or a file of tests.
    select: the checks or tests that are run, as -k. Of contracts: red are the machines on which they must fail, all
    others of the selection must hold; finding, what and blame are those of the verdict, line the text that is blamed.
    Of tests: those that must fail, all others must pass.
    """

    name: str
    title: str
    kind: str
    origin: str
    suite: str
    select: str
    red: tuple[str, ...] = ()
    finding: str = ""
    what: str = ""
    blame: str = ""
    line: str = ""
    tests: tuple[str, ...] = ()

    @property
    def patch(self) -> Path:
        return FAULTS / f"{self.name}.patch"

    @property
    def by_contracts(self) -> bool:
        return not self.suite.endswith(".py")


def faults() -> list[Fault]:
    """All faults. Raises FaultError for an entry that is none."""
    return [_read(file) for file in sorted(FAULTS.glob("*.toml"))]


def _read(file: Path) -> Fault:
    values: dict[str, Any] = tomllib.loads(file.read_text())
    known = {field.name for field in fields(Fault)}
    if unknown := values.keys() - known:
        raise FaultError(f"{file.name}: no field {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    try:
        fault = Fault(name=file.stem, **{**values, **lists})
    except TypeError as error:
        raise FaultError(f"{file.name}: {error}") from None
    wanted = ("red", "finding", "blame") if fault.by_contracts else ("tests",)
    if missing := [key for key in wanted if not getattr(fault, key)]:
        raise FaultError(f"{file.name}: it does not say {', '.join(missing)}")
    return fault


def copied(folder: Path, fault: Fault | None = None) -> Path:
    """The new `folder` with a copy of blockscale, and the fault in it if one is given. Raises FaultError as `apply`."""
    shutil.copytree(PACKAGE, folder / "blockscale", ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        apply(fault, folder)
    return folder


def apply(fault: Fault, folder: Path) -> None:
    """Apply a fault's patch to the copy in `folder`. Raises FaultError if it does not apply."""
    # Outside any repository: within one git apply would look for the files from its root.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env["GIT_CEILING_DIRECTORIES"] = str(folder.resolve().parent)
    command = ["git", "apply", str(fault.patch)]
    try:
        done = subprocess.run(command, cwd=folder.resolve(), env=env, capture_output=True, text=True)
    except FileNotFoundError:
        raise FaultError("git is not installed, and it applies the patches of fixtures/regressions") from None
    if done.returncode:
        says = " ".join(done.stderr.split())
        raise FaultError(f"{fault.patch.name} no longer applies to kernels/blockscale ({says}): make the patch anew")
