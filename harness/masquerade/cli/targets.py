"""Where reports go. What cannot be written is refused before the first check; a report that was made is never lost."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from masquerade.cli.failures import ToolError
from masquerade.cli.kinds import ParamType, meant

if TYPE_CHECKING:
    from masquerade.report.results import Results

#: The module that renders each kind, named and not imported: its function `render` takes results and gives text.
RENDERERS = {
    "json": "masquerade.report.json_report",
    "junit": "masquerade.report.junit",
}

STDOUT = "-"


@dataclass(frozen=True)
class Target:
    """A report of some kind and where it goes: a file, or `-` for standard output."""

    kind: str
    where: str

    @property
    def is_stdout(self) -> bool:
        return self.where == STDOUT

    def write(self, results: Results) -> None:
        """Write the report.

        Raises: ToolError if the file can no longer be written. It then lies in the temporary directory, and the error
        says where.
        """
        text: str = import_module(RENDERERS[self.kind]).render(results)
        if self.is_stdout:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        try:
            _replace(Path(self.where), text)
        except OSError as error:
            kept = _keep(self.kind, text)
            raise ToolError(
                f"cannot write the {self.kind} report to {self.where}: {error.strerror}. It is in {kept}"
            ) from error


def write_all(targets: Iterable[Target], results: Results) -> None:
    """Write every report that was asked for; one that fails does not keep the others from being written.

    Raises: ToolError, after the last one.
    """
    errors = []
    for target in targets:
        try:
            target.write(results)
        except ToolError as error:
            errors.append(error.message)
    if errors:
        raise ToolError("\n".join(errors))


class TargetType(ParamType):
    """KIND:FILE -> Target, after a trial that the file can be written."""

    name = "KIND:FILE"

    def convert(self, value: str | Target, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        if isinstance(value, Target):
            return value
        kind, _, where = value.partition(":")
        if kind not in RENDERERS:
            self.fail(f"{kind!r} is no kind of report; {meant(kind, RENDERERS)}", param, ctx)
        if not where:
            self.fail(f"{value!r} names no file; write {kind}:FILE, or {kind}:- for standard output", param, ctx)
        if where != STDOUT:
            reason = _refusal(Path(where))
            if reason:
                self.fail(f"cannot write to {where!r}: {reason}", param, ctx)
            where = os.path.abspath(where)
        return Target(kind, where)


def _refusal(file: Path) -> str:
    """Why `file` cannot be written; empty if it can. Tried, as permissions alone do not tell; leaves all as it was."""
    if file.is_dir():
        return "it is a directory; name a file in it"
    if not file.parent.is_dir():
        return f"there is no directory {str(file.parent)!r}; make it first"
    existed = file.exists()
    if existed and not file.is_file():
        return ""  # a pipe or a device: opening it may wait for a reader
    try:
        with file.open("ab"):
            pass
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    if not existed:
        file.unlink()
    return ""


def _replace(file: Path, text: str) -> None:
    """Put `text` into `file` in one step, so that nobody reads half a report."""
    if file.exists() and not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    file = file.resolve()  # a link stays a link
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as half:
        try:
            half.write(text)
            half.flush()
            os.chmod(half.name, file.stat().st_mode if file.exists() else 0o666 & ~_umask())
            os.replace(half.name, file)
        except BaseException:
            os.unlink(half.name)
            raise


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def _keep(kind: str, text: str) -> str:
    suffix = {"junit": ".xml"}.get(kind, f".{kind}")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="masquerade-", suffix=suffix, delete=False) as file:
        file.write(text)
    return file.name
