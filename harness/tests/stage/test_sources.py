"""Syntax trees of sources, those of subjects among them."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from masquerade.stage.sources import parsed


def test_threads_parse_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython up to 3.11.7 ends with SystemError where two threads do, once the GIL changes hands in between."""
    source = "def f(x):\n    return [x, [x, [x, (lambda: x + 1)()]]]\n" * 200
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    try:
        sys.setswitchinterval(1e-6)
        gc.set_threshold(10)
        gc.callbacks.append(_let_others_run)
        with ThreadPoolExecutor(4) as pool:
            trees = list(pool.map(parsed, [source] * 40))
    finally:
        gc.callbacks.remove(_let_others_run)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    assert all(tree is not None and len(tree.body) == 200 for tree in trees)


def _let_others_run(phase: str, info: dict[str, int]) -> None:
    sum(range(100))


@pytest.mark.parametrize(
    "source", ["def f(:", "x = '\0'", b"\xff\xfe = 1", "(" * 500 + ")" * 500], ids=["syntax", "null", "bytes", "deep"]
)
def test_a_source_that_python_refuses_is_none(source: str | bytes) -> None:
    assert parsed(source) is None
