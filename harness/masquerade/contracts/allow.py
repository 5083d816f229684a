"""Entries of an allow-list: findings that are known and borne, each with its reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from masquerade.contracts import kinds, patterns
from masquerade.contracts.settings import setting
from masquerade.machines import Machine
from masquerade.stage.record import SEVERITY, Finding, Record


@dataclass(frozen=True, kw_only=True)
class Allow:
    """One exception. It matches a finding in a module that is checked, or whose line is to blame."""

    module: str = setting(patterns.loose, "The module that is checked, or whose line is to blame; a pattern.")
    machine: str = setting(kinds.text, "A machine, a platform, or a pattern of machines such as `h100*`.")
    kind: str = setting(kinds.one_of(*SEVERITY), "The kind of finding.")
    what: str = setting(kinds.text, "The probe, module, library or variable; a pattern. Without it: any.", "*")
    reason: str = setting(kinds.text, "Why it is borne.")
    line: int = 0

    def on(self, machine: str, platform: str) -> bool:
        return platform == self.machine or fnmatch.fnmatchcase(machine, self.machine)

    def suits(self, machines: Iterable[Machine]) -> bool:
        """Whether one of the machines is meant."""
        return any(self.on(machine.id, machine.platform) for machine in machines)

    def matches(self, record: Record, finding: Finding) -> bool:
        if finding.kind != self.kind or not self.on(record.machine, record.platform):
            return False
        checked = record.subject.partition(":")[0]
        blamed = finding.blame.module if finding.blame else ""
        named = any(patterns.compiled(self.module).fullmatch(module) for module in (checked, blamed))
        return named and fnmatch.fnmatchcase(finding.what, self.what)

    def __str__(self) -> str:
        what = "" if self.what == "*" else f" of {self.what}"
        return f"{self.kind}{what} in {self.module} on {self.machine}"
