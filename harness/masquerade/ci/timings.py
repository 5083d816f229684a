"""How long each environment or contract took: from tox's result file, masquerade's JSON report, or plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from masquerade.ci.work import PlanError


def read(files: Iterable[Path]) -> dict[str, float]:
    """Seconds by name; what two files name has the later one's.

    Formats: `tox run --result-json FILE` (setup and test commands of each environment), `masquerade check --report
    json:FILE` (the checks of each contract), or {"name": seconds}.

    Raises: PlanError that names the file and what is wrong in it.
    """
    out: dict[str, float] = {}
    for file in files:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise PlanError(f"{file}: {error.strerror}") from None
        except ValueError as error:
            raise PlanError(f"{file}: no JSON: {error}") from None
        if not isinstance(found, dict):
            raise PlanError(f"{file}: expected an object with a time in seconds for each name")
        out |= _seconds(found, file)
    return out


def _seconds(found: dict[str, Any], file: Path) -> dict[str, float]:
    if isinstance(found.get("testenvs"), dict):
        return {name: _of_tox(env) for name, env in found["testenvs"].items() if isinstance(env, dict)}
    if isinstance(found.get("checks"), list):
        return _of_report(found["checks"])
    for name, seconds in found.items():
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise PlanError(f"{file}: {name} is {json.dumps(seconds)[:60]}; expected a time in seconds")
    return {name: float(seconds) for name, seconds in found.items()}


def _of_tox(env: Mapping[str, Any]) -> float:
    """Source: tox's documentation of its JSON result: `setup` and `test` list commands with `elapsed` seconds."""
    commands = [command for part in ("setup", "test") for command in env.get(part) or () if isinstance(command, dict)]
    return float(sum(command.get("elapsed") or 0.0 for command in commands))


def _of_report(checks: Iterable[Any]) -> dict[str, float]:
    """A check of a contract has the id kind/contract/rest."""
    out: dict[str, float] = {}
    for check in checks:
        kind, _, rest = str(check.get("id", "")).partition("/")
        name, slash, _ = rest.partition("/")
        if kind and slash:
            out[name] = out.get(name, 0.0) + float(check.get("seconds") or 0.0)
    return out
