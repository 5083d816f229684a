"""Launch configurations, checked in per kernel and arch: `<kernel>/<arch>.json`, found on a card and never timed here.

A file says on which card, with which torch and Triton, and when its entries were found. Each entry holds the largest M
(and optionally N and K) that it serves and the configuration's fields; the first entry that fits is taken.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from blockscale.platforms import Arch

_HERE = Path(__file__).parent
GENERIC = "generic"


def choose(kernel: str, arch: Arch | None, m: int, n: int, k: int) -> dict[str, Any]:
    """The configuration for one shape: the arch's entries, else the generic ones, whose last serves all."""
    return dict(_find(kernel, arch, m, n, k))


@functools.cache
def _find(kernel: str, arch: Arch | None, m: int, n: int, k: int) -> dict[str, Any]:
    for name in (arch.name if arch else GENERIC, GENERIC):
        for entry in _entries(kernel, name):
            if m <= entry.get("m", m) and n <= entry.get("n", n) and k <= entry.get("k", k):
                config: dict[str, Any] = entry["config"]
                return config
    raise LookupError(f"{kernel}: {GENERIC}.json has no entry for M={m}, N={n}, K={k}; its last must serve every shape")


@functools.cache
def _entries(kernel: str, arch: str) -> list[dict[str, Any]]:
    path = _HERE / kernel / f"{arch}.json"
    entries: list[dict[str, Any]] = json.loads(path.read_text())["entries"] if path.exists() else []
    return entries
