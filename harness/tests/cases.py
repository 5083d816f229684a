"""The handed cases: small packages with the verdict that each world must give (fixtures/cases, fixtures/hostile)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade import machines
from masquerade.stage import Check, Record

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
WORLDS = ("cuda", "rocm", "xpu", "cpu")
OWNERS = {"rocm": ("vendor_rocm", "vendor_rocm_smi"), "cuda": ("vendor_cuda", "vendor_cuda_smi", "vendor_flash")}


@dataclass(frozen=True)
class Case:
    """One folder of fixtures, and what is expected of it."""

    folder: Path
    expect: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def kind(self) -> str:
        return self.name[0]

    def check(self, world: str, subject: str | None = None, **options: Any) -> Check:
        expect = self.expect
        call = expect.get("call")
        if subject is None:
            subject = call["target"] if call else expect["import"]
        return Check(
            subject,
            machines.resolve(world),
            args=tuple(call["args"]) if call else (),
            owners=OWNERS,
            path=tuple(os.path.normpath(self.folder / place) for place in expect["path"]),
            env=expect.get("env", {}),
            timeout=options.pop("timeout", expect.get("timeout_s", 30)),
            settle=expect.get("settle_s", 1.0),
            **options,
        )

    def fair(self, world: str) -> list[str]:
        """The verdicts that are right in this world."""
        return [self.expect["platforms"][world], *self.expect.get("also", {}).get(world, ())]

    def lines(self) -> set[str]:
        """The lines that a report may blame."""
        return {*self.expect.get("chain", ()), *([self.expect["blame"]] if self.expect.get("blame") else ())}


def cases(folder: str, kinds: str) -> list[Case]:
    """All cases below fixtures/`folder` whose names start with one of the letters `kinds`."""
    return [
        Case(path.parent, json.loads(path.read_text()))
        for path in sorted((FIXTURES / folder).glob("*/expect.json"))
        if path.parent.name[0] in kinds
    ]


def matches(record: Record, expected: str) -> bool:
    """Whether a record holds the verdict `kind` or `kind:what`."""
    kind, _, what = expected.partition(":")
    if kind == "ok":
        return record.verdict == "ok"
    if kind == "call-mismatch" and record.verdict == "ok":
        return False
    return record.verdict == kind and (not what or any(f.kind == kind and f.what == what for f in record.findings))
