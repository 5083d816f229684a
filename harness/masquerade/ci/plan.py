"""Which job runs what: jobs as even as the measured times allow, and one for each lane of hardware."""

from __future__ import annotations

import fnmatch
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from masquerade.ci.work import NAME, PlanError

PLATFORMS = ("cuda", "rocm", "xpu", "cpu")


@dataclass(frozen=True)
class Hardware:
    """A lane: an environment that needs a real device, and the agents' queue that has one.

    `required` is a platform, or one arch of it: cuda, rocm:gfx950.
    """

    environment: str
    required: str
    queue: str

    @classmethod
    def parse(cls, text: str) -> Hardware:
        """ENVIRONMENT=PLATFORM@QUEUE or ENVIRONMENT=PLATFORM:ARCH@QUEUE, as in numerics=rocm:gfx950@mi355x.

        Raises: PlanError.
        """
        environment, _, rest = text.partition("=")
        required, _, queue = rest.partition("@")
        platform, colon, arch = required.partition(":")
        if not all(map(NAME.fullmatch, (environment, platform, queue, arch or "any"))) or (colon and not arch):
            raise PlanError(f"{text!r} is no lane of hardware; write ENVIRONMENT=PLATFORM@QUEUE, as in gpu=cuda@h200")
        if platform not in PLATFORMS:
            raise PlanError(f"{text!r}: {platform!r} is no platform; known: {', '.join(PLATFORMS)}")
        return cls(environment, required, queue)


@dataclass(frozen=True)
class Job:
    """Names that run one after the other in one job. `seconds` is what they took, None where nothing was measured."""

    names: tuple[str, ...]
    seconds: float | None = None
    hardware: Hardware | None = None

    @property
    def title(self) -> str:
        """The names, or the first of many."""
        joined = ", ".join(self.names)
        return joined if len(joined) <= 60 else f"{self.names[0]} and {len(self.names) - 1} more"


def plan(
    names: Sequence[str], jobs: int, timings: Mapping[str, float], hardware: Iterable[Hardware] = ()
) -> tuple[Job, ...]:
    """At most `jobs` jobs that together run every name once, then one for each lane.

    The longest comes first and each goes where least is to be done: no job is longer than 4/3 of the best possible
    (R. L. Graham, Bounds on multiprocessing timing anomalies, 1969). What was not measured counts as the median.

    Raises: PlanError for a lane of an environment that is not there.
    """
    lanes = {lane.environment: lane for lane in hardware}
    for missing in lanes.keys() - set(names):
        raise PlanError(f"there is no environment {missing!r} for a lane of hardware; known: {', '.join(names)}")
    plain = [name for name in names if name not in lanes]
    measured = [timings[name] for name in plain if name in timings]
    usual = statistics.median(measured) if measured else 1.0
    weight = {name: timings.get(name, usual) for name in plain}
    bins: list[list[str]] = [[] for _ in range(min(jobs, len(plain)))]
    for name in sorted(plain, key=lambda name: -weight[name]):
        min(bins, key=lambda bin: sum(weight[other] for other in bin)).append(name)
    order = {name: place for place, name in enumerate(names)}
    shards = [sorted(bin, key=order.__getitem__) for bin in bins]
    made = [Job(tuple(shard), sum(weight[n] for n in shard) if measured else None) for shard in shards]
    made.sort(key=lambda job: order[job.names[0]])
    return (*made, *(Job((name,), timings.get(name), lanes[name]) for name in names if name in lanes))


def without(names: Iterable[str], skipped: Sequence[str]) -> tuple[str, ...]:
    """The names that match none of the patterns.

    Raises: PlanError for a pattern that matches nothing, and if nothing is left.
    """
    known = tuple(names)
    for pattern in skipped:
        if not fnmatch.filter(known, pattern):
            raise PlanError(f"--skip {pattern} matches nothing; known: {', '.join(known)}")
    left = tuple(name for name in known if not any(fnmatch.fnmatchcase(name, pattern) for pattern in skipped))
    if not left:
        raise PlanError("every environment is skipped: nothing would be run")
    return left
