"""The list of probes: reads `probes.txt`, where each line is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROBES = Path(__file__).parents[1] / "probes.txt"

PLATFORMS = ("cuda", "rocm", "xpu", "cpu")

_HEADER = re.compile(r"\[(?P<group>[^\]]+)\](?P<platforms>[ a-z]*)")
_VARIABLES = re.compile(r"(?P<fresh>fresh )?(?P<variables>(?:[A-Z][A-Z0-9_]*=(?:'[^']*'|[^ ']*) )+)\| (?P<steps>.+)")
_UUID = re.compile(r"\{uuid(?::(?P<digits>\d+))?\}")


@dataclass(frozen=True)
class Probe:
    """Steps that run one after the other in a process of their own, after `env` has been set.

    `id` is the probe's line. `fresh` sets `env` before the interpreter starts. It is asked on `platforms` alone.
    """

    id: str
    group: str
    platforms: tuple[str, ...]
    steps: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    fresh: bool = False

    def environment(self, uuid: str | None) -> dict[str, str] | None:
        """The variables, with the first card's uuid in its places; None where it is wanted and not known.

        `{uuid}` is all of it (`GPU-` and 36 characters), `{uuid:8}` its first digits after the prefix.
        """
        if uuid is None and any(_UUID.search(value) for value in self.env.values()):
            return None

        def put(found: re.Match[str]) -> str:
            digits = found["digits"]
            return str(uuid)[: len("GPU-") + int(digits)] if digits else str(uuid)

        return {name: _UUID.sub(put, value) for name, value in self.env.items()}


class ProbeError(ValueError):
    """A line of the list cannot be read."""


def load(path: Path = PROBES) -> list[Probe]:
    """All probes. Raises ProbeError, with the line, for what is no probe or is there twice."""
    probes: dict[str, Probe] = {}
    for number, probe in _parse(path):
        if probe.id in probes:
            raise ProbeError(f"{path.name}:{number}: {probe.id!r} is in the list twice; take one of them out")
        probes[probe.id] = probe
    return list(probes.values())


def _parse(path: Path) -> Iterator[tuple[int, Probe]]:
    group, platforms = "", PLATFORMS
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        header = _HEADER.fullmatch(text)
        if header:
            group, platforms = header["group"], tuple(header["platforms"].split()) or PLATFORMS
            unknown = [name for name in platforms if name not in PLATFORMS]
            if unknown:
                raise ProbeError(
                    f"{path.name}:{number}: {unknown[0]!r} is no platform; they are {', '.join(PLATFORMS)}"
                )
        elif not group:
            raise ProbeError(f"{path.name}:{number}: a probe before the first [group]")
        else:
            yield number, _probe(text, group, platforms)


def _probe(text: str, group: str, platforms: tuple[str, ...]) -> Probe:
    env: dict[str, str] = {}
    fresh, steps = False, text
    found = _VARIABLES.fullmatch(text)
    if found:
        assignments = (word.partition("=") for word in shlex.split(found["variables"]))
        env = {name: value for name, _, value in assignments}
        fresh, steps = bool(found["fresh"]), found["steps"]
    return Probe(text, group, platforms, tuple(step.strip() for step in steps.split(";;")), env, fresh)
