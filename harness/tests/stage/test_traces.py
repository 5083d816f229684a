"""The stack of an exception: the subject's lines as they are, whoever raised it below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import told

from conftest import write
from masquerade.stage import Stage


@pytest.mark.parametrize("isolation", ["one", "fresh"])
def test_an_error_out_of_a_fake_is_blamed_on_the_line_that_asked(
    request: pytest.FixtureRequest, tmp_path: Path, isolation: str
) -> None:
    stage: Stage = request.getfixturevalue(isolation)
    write(tmp_path, {"subject.py": "import pynvml\n\n\ndef ask():\n    pynvml.nvmlInit()\n\n\nask()\n"})
    record = stage.run("subject", on="cuda-management-failing", path=[tmp_path])
    worst = record.worst
    assert worst is not None and worst.kind == "import-error", told(record)
    assert (str(worst.blame), worst.blame.code if worst.blame else "") == ("subject.py:5", "pynvml.nvmlInit()")
    mine = [row for row in worst.stack if row.startswith("subject.py")]
    assert mine == ["subject.py:8 in <module>", "subject.py:5 in ask"]


def test_the_stack_of_an_error_names_each_frame_once(one: Stage, tmp_path: Path) -> None:
    source = "import json\n\n\ndef f(n):\n    return f(n - 1) if n else json.loads('{')\n\n\nf(2)\n"
    write(tmp_path, {"subject.py": source})
    worst = one.run("subject", path=[tmp_path]).worst
    assert worst is not None and worst.what == "JSONDecodeError"
    mine = [row for row in worst.stack if row.startswith("subject.py")]
    assert mine == ["subject.py:8 in <module>", *["subject.py:5 in f"] * 3]
    assert "json/decoder.py" in worst.stack[-1]
