"""Golden files: the table, and the oracle's reasons in a JSON file beside it."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from masquerade.contracts.errors import ConfigurationError, Problem, shown
from masquerade.contracts.golden import cells
from masquerade.contracts.golden.parsing import parse
from masquerade.contracts.golden.table import FIRST, Answer, Answers, Table, render

File = str | os.PathLike[str]


def read(file: File, keys: tuple[str, ...] = (FIRST,)) -> Table | None:
    """The table in a file, whose rows `keys` name; None if there is no such file.

    Raises ConfigurationError that names each bad line and its mend: conflict markers, a row or a column that is there
    twice, a row of another length, Windows line ends, a byte-order mark.
    """
    try:
        data = Path(file).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError([Problem(shown(file), 0, "", f"cannot be read: {error.strerror}")]) from None
    problems: list[Problem] = []
    table = parse(data, lambda line, message: problems.append(Problem(shown(file), line, "", message)), keys)
    if problems:
        raise ConfigurationError(problems)
    return table


def reasons_file(file: File) -> Path:
    """Where the reasons of a golden table lie: routes.md has routes.reasons.json."""
    return Path(file).with_suffix(".reasons.json")


def read_reasons(file: File) -> Answers:
    """The reasons that the oracle gave for the answers of a golden table. Raises ConfigurationError for a bad file."""
    beside = reasons_file(file)
    try:
        found = json.loads(beside.read_bytes())
        return {machine: {problem: _answer(said) for problem, said in row.items()} for machine, row in found.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        says = f"cannot be read: {error.strerror}"
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        line = getattr(error, "lineno", 0)
        says = "not a file of reasons; delete it, and `masquerade check --golden update` makes it anew"
        raise ConfigurationError([Problem(shown(beside), line, "", says)]) from None
    raise ConfigurationError([Problem(shown(beside), 0, "", says)])


def _answer(said: Mapping[str, Any]) -> Answer:
    refused = {str(name): str(why) for name, why in said.get("refused", {}).items()}
    return Answer(str(said["answer"]), str(said.get("reason", "")), refused)


def unwritable(file: File) -> str:
    """Why a golden file cannot be written, with the mend; "" if it can."""
    path = Path(file)
    for each in (path, reasons_file(path)):
        if each.exists() and not each.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            return f"{shown(each)} is read-only; make it writable: chmod u+w {shown(each)}"
    return "" if os.access(path.parent, os.W_OK) else f"no file can be made in {path.parent}; make the folder writable"


def write(file: File, table: Table, reasons: Answers) -> bool:
    """Write a table and its reasons; gives whether anything is other than before.

    Raises ConfigurationError if a file cannot be written.
    """
    texts = {Path(file): render(table), reasons_file(file): _reasons_text(reasons)}
    changed = False
    for path, text in texts.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == old:
            continue
        if why := unwritable(file):
            raise ConfigurationError([Problem(shown(path), 0, "", why)])
        try:
            _replace(path, text)
        except OSError as error:
            says = f"cannot be written: {error.strerror}"
            raise ConfigurationError([Problem(shown(path), 0, "", says)]) from None
        changed = True
    return changed


def _reasons_text(reasons: Answers) -> str:
    """One line for each answer, so that one reason is one line of a diff. "" where nothing was explained."""
    rows = []
    for machine, answers in reasons.items():
        told = [
            f"  {json.dumps(problem)}: {cells.value(_said(answer))}"
            for problem, answer in answers.items()
            if answer.reason or answer.refused
        ]
        if told:
            rows.append(f" {json.dumps(machine)}: {{\n" + ",\n".join(told) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n" if rows else ""


def _said(answer: Answer) -> dict[str, Any]:
    said: dict[str, Any] = {"answer": answer.cell}
    if answer.reason:
        said["reason"] = answer.reason
    if answer.refused:
        said["refused"] = dict(answer.refused)
    return said


def _replace(path: Path, text: str) -> None:
    """Put `text` into a file in one step; an empty text takes the file away."""
    path = path.resolve()  # a link stays a link
    if not text:
        path.unlink(missing_ok=True)
        return
    mode = path.stat().st_mode if path.exists() else 0o644
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", dir=path.parent, delete=False) as half:
        try:
            half.write(text)
            half.flush()
            os.chmod(half.name, stat.S_IMODE(mode))
            os.replace(half.name, path)
        except BaseException:
            os.unlink(half.name)
            raise
