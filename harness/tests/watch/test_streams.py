"""Streams, which C++ makes below torch's lazy initialization: an event on their own platform, an error elsewhere."""

from __future__ import annotations

import pytest

from conftest import Run


@pytest.mark.parametrize("on", ["cuda", "rocm", "xpu", "cpu"])
@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_a_stream_opens_its_own_platforms_device_alone(run: Run, kind: str, on: str) -> None:
    record = run(f"import torch\ntry: torch.{kind}.Stream()\nexcept RuntimeError: pass\n", on=on)
    own = on in (("cuda", "rocm") if kind == "cuda" else ("xpu",))
    expected = [("device-init", f"torch.{kind}.Stream", "subject.py:2")] if own else []
    assert [(f.kind, f.what, str(f.blame)) for f in record.findings] == expected
