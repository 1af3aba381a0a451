"""Timing: sides take turns in one process, warm, and the median of several turns counts.

Idle OpenMP threads of torch spin for a while after each parallel region, and so take a core from
whoever comes next. Every turn therefore begins with a pause, in which they fall asleep. A side that
is fast runs several times a turn, so that the clock's resolution and the first touch of cold caches
do not count.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import torch
from threadpoolctl import threadpool_limits

from moot.offchain.native.threads import get_threads, set_threads

Side = Callable[[], object]

PAUSE_S = 0.03
_TURN_S = 0.02

_WARM_CALLS = 4
"""Calls before a side is warm, unless one is long: ours plans once more what runs for a fourth
time, and did so in the one call that said how many there are in a turn."""

_LONG_S = 0.2


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let our kernels, torch and numpy use the same number of threads."""
    ours, theirs = get_threads(), torch.get_num_threads()
    set_threads(count)
    torch.set_num_threads(count)
    try:
        with threadpool_limits(limits=count, user_api="blas"):
            yield
    finally:
        set_threads(ours)
        torch.set_num_threads(theirs)


def measure(sides: Sequence[Side], repeats: int) -> list[float]:
    """Return the median seconds of one call of each side; all have run before."""
    calls = [_choose_calls(side) for side in sides]
    turns: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, count, found in zip(sides, calls, turns, strict=True):
            found.append(_take_turn(side, count))
    return [median(found) for found in turns]


def _choose_calls(side: Side) -> int:
    """Return how often a side runs in a turn, once it is warm.

    A single call comes after a pause, and so takes several times as long as the next ones.
    """
    once = math.inf
    for _ in range(_WARM_CALLS):
        once = min(once, _take_turn(side, 1))
        if once > _LONG_S:
            return 1
    return _count_calls(_take_turn(side, _count_calls(once)))


def _count_calls(seconds: float) -> int:
    """Return how many calls of so many seconds a turn has."""
    return max(1, int(_TURN_S / max(seconds, 1e-9)))


def _take_turn(side: Side, calls: int) -> float:
    time.sleep(PAUSE_S)
    start = time.perf_counter()
    for _ in range(calls):
        side()
    return (time.perf_counter() - start) / calls
