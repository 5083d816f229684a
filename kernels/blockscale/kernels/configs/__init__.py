"""Launch configurations, checked in per kernel and arch: `<kernel>/<arch>.json`, found on a card and never timed here.

A file says on which card, with which torch and Triton, and when its entries were found. Each entry holds the largest M
(and optionally N and K) that it serves and the configuration's fields; the first entry that fits is taken. A file found
on another card than this one is passed over, with a note.
"""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

import torch

from blockscale.platforms import Arch

_HERE = Path(__file__).parent
GENERIC = "generic"
_LOG = logging.getLogger(__name__)


def choose(kernel: str, arch: Arch | None, m: int, n: int, k: int) -> dict[str, Any]:
    """The configuration for one shape: the arch's entries, else the generic ones, whose last serves all."""
    return dict(_find(kernel, arch, m, n, k))


@functools.cache
def _find(kernel: str, arch: Arch | None, m: int, n: int, k: int) -> dict[str, Any]:
    tuned = _entries(kernel, arch.name, _card(arch)) if arch else ()
    for entries in (tuned, _entries(kernel, GENERIC, None)):
        for entry in entries:
            if m <= entry.get("m", m) and n <= entry.get("n", n) and k <= entry.get("k", k):
                config: dict[str, Any] = entry["config"]
                return config
    raise LookupError(f"{kernel}: {GENERIC}.json has no entry for M={m}, N={n}, K={k}; its last must serve every shape")


@functools.cache
def _entries(kernel: str, arch: str, card: str | None) -> list[dict[str, Any]]:
    """The entries of an arch's file; none if it has none, or one that another card than `card` gave."""
    path = _HERE / kernel / f"{arch}.json"
    if not path.exists():
        return []
    file = json.loads(path.read_text())
    found = file["found"]["card"]
    if found not in (None, card):
        _LOG.info("%s/%s was found on %s and is not used on %s; %s.json is.", kernel, path.name, found, card, GENERIC)
        return []
    entries: list[dict[str, Any]] = file["entries"]
    return entries


@functools.cache
def _card(arch: Arch) -> str:
    """The current device's name, as its driver has it. A kernel is about to run there: asking opens nothing new."""
    name: str = (torch.xpu if arch.vendor == "intel" else torch.cuda).get_device_name()
    return name
