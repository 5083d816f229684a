"""Golden tables: which answer each machine should give, as text that diffs well, with the reasons in a file beside."""

from __future__ import annotations

from masquerade.contracts.golden.acts import ACTS, Plan, act, create, fix, trim, update
from masquerade.contracts.golden.changes import Change, Compared, Comparison, Group, compare, compared, grouped, lines
from masquerade.contracts.golden.files import read, read_reasons, reasons_file, unwritable, write
from masquerade.contracts.golden.table import Answer, Answers, Row, Table, render

__all__ = [
    "ACTS",
    "Answer",
    "Answers",
    "Change",
    "Compared",
    "Comparison",
    "Group",
    "Plan",
    "Row",
    "Table",
    "act",
    "compare",
    "compared",
    "create",
    "fix",
    "grouped",
    "lines",
    "read",
    "read_reasons",
    "reasons_file",
    "render",
    "trim",
    "unwritable",
    "update",
    "write",
]
