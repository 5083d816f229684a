"""Where reports go. What cannot be written is refused before the first check; a report that was made is never lost."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from masquerade.cli import services
from masquerade.cli.failures import ToolError
from masquerade.cli.kinds import ParamType, meant

if TYPE_CHECKING:
    from masquerade.report.results import Results

#: The module that renders each kind, named and not imported: its function `render` takes results and gives text,
#: `parts` where it has one gives several: file.json, file-2.json.
RENDERERS = {
    "json": "masquerade.report.json_report",
    "junit": "masquerade.report.junit",
    "html": "masquerade.report.html",
    "test-engine": "masquerade.report.buildkite_results",
}

#: Those that a service reads, which links to files of the repository by their paths in there.
LINKED = ("junit", "test-engine")

#: All kinds of report: those that are files, then those that go to a CI service.
KINDS = (*RENDERERS, *services.DELIVER)

STDOUT = "-"


@dataclass(frozen=True)
class Target:
    """A report of some kind and where it goes: a file, `-` for standard output, or the service of this name."""

    kind: str
    where: str

    @property
    def is_stdout(self) -> bool:
        return self.where == STDOUT

    def write(self, results: Results, log: TextIO) -> None:
        """Write the report; what a service reads off the log of a job goes to `log`.

        Raises: ToolError if it cannot be delivered. It then lies in the temporary directory, and the error says where.
        """
        if self.kind in services.DELIVER:
            services.DELIVER[self.kind](results, log)
            return
        if self.kind in LINKED:
            results = services.in_repository(results)
        renderer = import_module(RENDERERS[self.kind])
        if hasattr(renderer, "parts") and not self.is_stdout:
            for number, text in enumerate(renderer.parts(results), start=1):
                self._put(text, number)
        else:
            self._put(renderer.render(results))

    def _put(self, text: str, number: int = 1) -> None:
        if self.is_stdout:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        file = Path(self.where)
        if number > 1:
            file = file.with_stem(f"{file.stem}-{number}")
        try:
            _replace(file, text)
        except OSError as error:
            told = f"cannot write the {self.kind} report to {file}: {error.strerror}"
            raise ToolError(f"{told}. {services.kept(self.kind, text)}") from error


def write_all(targets: Sequence[Target], results: Results, log: TextIO | None = None) -> None:
    """Write every report that was asked for; one that fails does not keep the others from being written.

    `log` is what a CI service reads; by default standard output, or standard error where a report takes the former.

    Raises: ToolError, after the last one.
    """
    log = log or (sys.stderr if any(target.is_stdout for target in targets) else sys.stdout)
    errors = []
    for target in targets:
        try:
            target.write(results, log)
        except ToolError as error:
            errors.append(error.message)
    if errors:
        raise ToolError("\n".join(errors))


class TargetType(ParamType):
    """KIND:FILE -> Target, after a trial that the file can be written; a service has no file."""

    name = "KIND:FILE"

    def convert(self, value: str | Target, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        if isinstance(value, Target):
            return value
        kind, colon, where = value.partition(":")
        if kind in services.DELIVER:
            return self.fail(f"{kind} takes no file; write {kind}", param, ctx) if colon else Target(kind, kind)
        if kind not in RENDERERS:
            self.fail(f"{kind!r} is no kind of report; {meant(kind, KINDS)}", param, ctx)
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
