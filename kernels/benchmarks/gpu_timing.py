"""Timing on a GPU: calls over rotating inputs, captured in a CUDA graph, replayed between events after an idle gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

HOW = (
    "CUDA graph of one call per input set, sets larger together than four L2 caches; median of replays between events; "
    "rounds take turns, each after an idle gap"
)
_L2_CACHES, _MOST_SETS = 4, 24
_ROUND_MS = 25.0


def sets_needed(bytes_per_set: int) -> int:
    """How many input sets it takes so that none of a call's inputs is in the L2 cache from the round before."""
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return max(2, min(_MOST_SETS, -(-_L2_CACHES * cache // bytes_per_set)))


class Timed:
    """A list of calls, captured; `microseconds` times them, per call."""

    def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:  # compiles, and makes handles
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        self._calls = list(calls)  # kept, for the graph reads what they hold
        with torch.cuda.graph(self._graph):
            self.outputs = [call() for call in calls]

    def microseconds(self) -> float:
        """Median over replays that fill a round."""
        self._graph.replay()
        replays = max(5, min(500, int(_ROUND_MS / max(self._replay(), 1e-3))))
        return median(self._replay() for _ in range(replays)) * 1e3 / len(self._calls)

    def _replay(self) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


def side_by_side(timed: dict[str, Timed], rounds: int, gap: float) -> dict[str, float]:
    """Microseconds per call of each, the median over rounds in which they take turns, forwards and backwards."""
    seen: dict[str, list[float]] = {name: [] for name in timed}
    for index in range(rounds):
        for name in list(timed)[:: 1 if index % 2 == 0 else -1]:
            time.sleep(gap)
            seen[name].append(timed[name].microseconds())
    return {name: median(times) for name, times in seen.items()}
