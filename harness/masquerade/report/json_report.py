"""The JSON report: everything that a run found. Its shape is published in schema.json, beside this file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from masquerade import __version__
from masquerade.report.results import Results
from masquerade.stage.record import Record

SCHEMA = 1
MAX_DEPTH = 100


def render(results: Results) -> str:
    """The run as one JSON document, in ASCII, always valid against `schema()`. Each check is one line."""
    whole = document(results)
    checks = [json.dumps(check, allow_nan=False) for check in whole.pop("checks")]
    head = json.dumps(whole, indent=1, allow_nan=False).removesuffix("\n}")
    lines = "[\n  " + ",\n  ".join(checks) + "\n ]" if checks else "[]"
    return f'{head},\n "checks": {lines}\n}}\n'


def document(results: Results) -> dict[str, Any]:
    """The run as plain JSON values."""
    return {
        "schema": SCHEMA,
        "tool": f"masquerade {__version__}",
        "host": results.host,
        "machines": [machine.to_json() for machine in results.machines],
        "levels": dict(results.levels),
        "interrupted": results.interrupted,
        "summary": {
            "subjects": len(results.subjects),
            "checks": len(results.records),
            "planned": results.planned,
            "failed": sum(record.failed for record in results.records),
            "verdicts": dict(results.verdicts),
            "seconds": round(results.seconds, 3),
        },
        "control": results.control.to_json() if results.control else None,
        "notes": list(results.notes),
        "stand_ins": list(results.stand_ins),
        "broken": [asdict(broken) for broken in results.broken],
        "checks": [_check(record, results) for record in results.ordered],
    }


def _check(record: Record, results: Results) -> dict[str, Any]:
    out = {**record.to_json(), **_own_levels(record, results)}
    for key in ("result", "launches"):  # what subjects supply
        out[key] = _plain(out[key])
    return out


def _own_levels(record: Record, results: Results) -> dict[str, Any]:
    """The levels that a contract set for its checks alone."""
    own = {kind: level for kind, level in record.levels.items() if results.levels.get(kind) != level}
    return {"levels": own} if own else {}


def schema() -> dict[str, Any]:
    """The published schema (JSON Schema 2020-12)."""
    text = (Path(__file__).parent / "schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _plain(value: Any, depth: int = 0) -> Any:
    """A subject's result may hold what JSON has no word for, or nest deeper than readers follow."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "float", "repr": repr(value)}
    if isinstance(value, (dict, list, tuple)) and depth >= MAX_DEPTH:
        return {"type": type(value).__name__, "repr": f"nested more than {MAX_DEPTH} deep"}
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    return value
