"""The vendors' bindings of management libraries: torch executes its platform's own, and any other is seen."""

from __future__ import annotations

import pytest
from cases import told

from conftest import Run


@pytest.mark.parametrize(
    ("binding", "machine", "verdict"),
    [
        ("pynvml", "h100", "ok"),
        ("pynvml", "mi300x+pynvml", "forbidden-import"),
        ("pynvml", "b580+pynvml", "forbidden-import"),
        ("pynvml", "rocm-two-vendors", "forbidden-import"),
        ("amdsmi", "mi300x", "ok"),
        ("amdsmi", "h100+amdsmi", "forbidden-import"),
    ],
)
def test_a_binding_of_another_platform_is_seen(run: Run, binding: str, machine: str, verdict: str) -> None:
    for source in (f"import {binding}\n", f"import torch\nimport {binding}\n"):
        record = run(source, on=machine, owners={"cuda": ["pynvml"], "rocm": ["amdsmi"]})
        assert record.verdict == verdict, told(record)
