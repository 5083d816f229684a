"""What to know of a run that its findings do not say: what was not there, and so was not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from masquerade.cli.ports import StagePort
from masquerade.machines.errors import nearest
from masquerade.machines.packages import known_packages
from masquerade.stage.check import Check
from masquerade.stage.owners import asked_of
from masquerade.stage.record import Record
from masquerade.stage.unseen import told, unseen


def remarks(checks: Sequence[Check], records: Sequence[Record], stage: StagePort) -> Iterator[str]:
    """A sentence for each."""
    yield from told(unseen(checks, records, stage.discover))
    yield from _unknown(checks, records, stage)
    messages = {finding.message for record in records for finding in record.findings}
    if not stage.facts.get("torch") and "No module named 'torch'" in messages:
        here = stage.facts.get("executable", "this interpreter")
        yield f"torch is not installed where the subject ran, {here}; --python names another interpreter"


def _unknown(checks: Sequence[Check], records: Sequence[Record], stage: StagePort) -> Iterator[str]:
    """Packages that are present by the user's word alone, and that nothing imported."""
    named = {name for check in checks for name in (*check.present, *(check.machine.packages.get("present") or {}))}
    executed = {name.partition(".")[0] for record in records for name in record.stand_ins}
    modules = asked_of(stage.discover)
    for name in sorted(named - known_packages().keys() - executed):
        if not modules(name, checks[0].path):
            near = nearest(name, known_packages(), 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"{name} is present by your word alone, and nothing imported it{meant}"
