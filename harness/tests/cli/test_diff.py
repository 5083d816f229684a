"""`masquerade diff`: two golden tables, as a release manager reads what moved between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import write

OLD = """\
# pkg.oracle:select

| machine | small  | large  | old | source |
|---------|--------|--------|-----|--------|
| h100    | TRITON | TRITON | A   | read   |
| h200    | TRITON | TRITON | A   | read   |
| mi300x  | TRITON | AITER  | A   | read   |
| t4      | NATIVE | ?      | A   | read   |
"""
NEW = """\
# pkg.oracle:select

| machine | small  | large                | source |
|---------|--------|----------------------|--------|
| h100    | MARLIN | TRITON               | read   |
| h200    | MARLIN | "TRITON"             | read   |
| mi300x  | TRITON | !NotImplementedError | read   |
| t4      | ?      | NATIVE               | read   |
| b200    | MARLIN | MARLIN               | read   |
"""
OLD_REASONS = {"h100": {"small": {"answer": "TRITON", "refused": {"MARLIN": "not for BF16"}}}}
NEW_REASONS = {
    "mi300x": {"large": {"answer": "!NotImplementedError", "reason": "NotImplementedError: no backend is left"}},
    "h200": {"small": {"answer": "MARLIN", "refused": {"TRITON": "too little shared memory"}}},
    "h100": {"small": {"answer": "another", "refused": {"TRITON": "of an older run"}}},
}


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    files = {"old.md": OLD, "new.md": NEW, "old.reasons.json": json.dumps(OLD_REASONS)}
    write(tmp_path, {**files, "new.reasons.json": json.dumps(NEW_REASONS)})
    return str(tmp_path / "old.md"), str(tmp_path / "new.md")


def test_what_moved_alike_is_told_once_with_both_sides_reasons(masquerade, tables) -> None:
    done = masquerade("diff", *tables)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "3 of 6 answers moved",
        "  small: TRITON -> MARLIN",
        "    on h100, h200",
        "    MARLIN was refused before: not for BF16",
        "    TRITON is refused: too little shared memory",
        "  large: AITER -> !NotImplementedError",
        "    on mi300x",
        "    NotImplementedError: no backend is left",
        "  only in the old table: column old",
        "  only in the new table: row b200",
    ]


def test_as_markdown(masquerade, tables) -> None:
    lines = masquerade("diff", "--markdown", *tables).stdout.splitlines()
    assert lines[:4] == ["3 of 6 answers moved.", "", "| problem | was | is | on | why |", "|---|---|---|---|---|"]
    assert lines[4] == (
        "| `small` | `TRITON` | `MARLIN` | `h100`, `h200` | "
        "`MARLIN was refused before: not for BF16`<br>`TRITON is refused: too little shared memory` |"
    )
    assert lines[-3:] == ["Only in the old table: column old.", "", "Only in the new table: row b200."]


def test_tables_that_say_the_same_end_with_0(masquerade, tables) -> None:
    done = masquerade("diff", tables[0], tables[0])
    assert (done.exit_code, done.stdout) == (0, "0 of 11 answers moved\n")


def test_a_file_that_is_no_table_is_a_mistake(masquerade, tables, tmp_path: Path) -> None:
    write(tmp_path, {"bad.md": "| machine | a |\n"})
    assert masquerade("diff", tables[0], str(tmp_path / "bad.md")).exit_code == 2
    assert masquerade("diff", tables[0], str(tmp_path / "gone.md")).exit_code == 2
