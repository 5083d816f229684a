"""The handed cases: small packages with the verdict that each world must give (fixtures/cases, fixtures/hostile)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade import machines
from masquerade.stage import Check, Record

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
WORLDS = ("cuda", "rocm", "xpu", "cpu")
OWNERS = {"rocm": ("vendor_rocm", "vendor_rocm_smi"), "cuda": ("vendor_cuda", "vendor_cuda_smi", "vendor_flash")}

#: Kinds for which a blamed line is more than can be asked for: the process left no stack.
ABRUPT = ("crash", "exit", "timeout")


@dataclass(frozen=True)
class Row:
    """One row of a golden table: a call, what it should answer, and what this case answers instead."""

    target: str
    args: tuple[Any, ...]
    want: Any
    got: Any
    worlds: tuple[str, ...]
    env: dict[str, str | None]


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
            options.setdefault("args", tuple(call["args"]) if call else ())
        return Check(
            subject,
            machines.resolve(world),
            owners=OWNERS,
            path=tuple(os.path.normpath(self.folder / place) for place in expect["path"]),
            env={**expect.get("env", {}), **options.pop("env", {})},
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

    def want(self, world: str) -> Any:
        """What the call that this case names should return."""
        want = self.expect["call"]["want"]
        return want[world] if isinstance(want, dict) else want

    def rows(self) -> Iterator[Row]:
        """The rows of the case's golden tables."""
        route = self.expect.get("route")
        for table in [route, *route.get("more", ())] if route else []:
            for row in table["rows"]:
                yield Row(
                    table["target"],
                    tuple(row["args"]),
                    row["want"],
                    row.get("got", row["want"]),
                    (row["platform"],) if "platform" in row else WORLDS,
                    row.get("env", {}),
                )


def cases(folder: str, kinds: str) -> list[Case]:
    """All cases below fixtures/`folder` whose names start with one of the letters `kinds`."""
    return [
        Case(path.parent, json.loads(path.read_text()))
        for path in sorted((FIXTURES / folder).glob("*/expect.json"))
        if path.parent.name[0] in kinds
    ]


def named(folder: str, name: str) -> Case:
    """The case of fixtures/`folder` whose name starts with `name`."""
    found = [case for case in cases(folder, name[0]) if case.name.startswith(name)]
    assert len(found) == 1, (folder, name)
    return found[0]


def matches(record: Record, expected: str) -> bool:
    """Whether a record holds the verdict `kind` or `kind:what`."""
    kind, _, what = expected.partition(":")
    if kind == "ok":
        return record.verdict == "ok"
    return record.verdict == kind and (not what or any(f.kind == kind and f.what == what for f in record.findings))


def told(record: Record) -> str:
    """What a failing test should say about a record."""
    chains = [[str(line) for line in f.chain] for f in record.findings]
    rows = [
        f"  {f.kind}: {f.what} at {f.blame}, chain {chain}: {f.message}"
        for f, chain in zip(record.findings, chains, strict=True)
    ]
    return "\n".join([f"{record.id} is {record.verdict}", *rows, *record.notes, record.output[-1000:]])


#: What a release of torch does by itself where a clean case meets it: (case, release) -> world -> verdict.
#: 2.11: torch.compile imports its inductor, which asks torch.cuda.is_available() (_inductor/runtime/benchmarking.py).
OF_TORCH = {("o17_torch_compile_decorated", "2.11"): {"cuda": "fork-poison", "rocm": "fork-poison"}}


def faults(case: Case, world: str, record: Record, torch: object = "") -> list[str]:
    """What is wrong with a record of this case: verdict, blame, a finding where none may be. [] when all is right.

    `torch` is the version that the case met.
    """
    of_torch = OF_TORCH.get((case.name, ".".join(str(torch).split(".")[:2])), {}).get(world)
    if of_torch:
        return (
            [] if record.verdict == of_torch else [f"verdict: want {of_torch} of torch {torch}, got {record.verdict}"]
        )
    fair = case.fair(world)
    if fair[0] == "call-mismatch" and record.verdict == "ok":
        # The call ran and answered wrongly, which a contract tells; here the answer is compared.
        return [] if record.result != case.want(world) else [f"{record.result!r} should not be the wanted answer"]
    wrong = [] if any(matches(record, verdict) for verdict in fair) else [f"verdict: want {fair}, got {record.verdict}"]
    if fair == ["ok"] and record.findings:
        wrong.append("a finding on a clean case")
    worst = record.worst
    if worst is not None and case.lines() and str(worst.blame) not in case.lines():
        # Where no frame of the subject is on the stack there is no line to name.
        package = case.expect["import"].partition(".")[0]
        no_frame = worst.kind in ABRUPT or not any(row.startswith(f"{package}/") for row in worst.stack)
        if worst.blame is not None or not no_frame:
            wrong.append(f"blame: want one of {sorted(case.lines())}, got {worst.blame}")
    return wrong
