"""The threads on which kernels run.

Kernels release the interpreter lock, so plain Python threads share the work: the parts of a result
are disjoint ranges, and each is computed by one thread in the order that the arithmetic fixes.
Results therefore never depend on the number of threads. Idle threads block in the operating system.
Numba's own pools are not used: its OpenMP layer spins and fights torch's threads for the cores, its
work queue may not be entered from two threads at once, and both make kernels several times slower
to compile. (torch's own idle threads spin for some milliseconds after each of its parallel regions;
`torch.set_num_threads(1)` avoids that.)
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_RANGES_PER_THREAD = 4
"""So that a thread that loses its core for a while does not hold up the others."""

_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(count: int) -> None:
    """Let kernels use `count` threads from now on, in the whole process.

    Raises:
        ValueError: if `count` is not positive.
    """
    if count < 1:
        raise ValueError(f"kernels need at least one thread, not {count}")
    global _threads  # noqa: PLW0603 - one setting for the process, as in torch and numba
    _threads = count


def get_threads() -> int:
    """Threads that kernels use; at first one for each core that this process may run on."""
    return _threads


def share(work: Callable[[int, int], object], items: int, grain: int) -> None:
    """Call `work(start, stop)` on ranges that partition `range(items)`, on several threads.

    Work that shares out work itself does that on its own thread.

    Args:
        work: computes the items of one range; ranges are independent of each other.
        items: number of items.
        grain: fewest items that are worth another thread, some 100 microseconds of work; ranges
            start at multiples of it.
    """
    grains = -(-items // grain)
    ranges = min(grains, _threads * _RANGES_PER_THREAD)
    if _threads == 1 or ranges <= 1 or _worker.is_pooled:
        work(0, items)
        return
    bounds = [min(items, grains * i // ranges * grain) for i in range(ranges + 1)]
    for _ in _pool(_threads).map(work, bounds[:-1], bounds[1:]):
        pass


class _Worker(threading.local):
    """Whether a thread belongs to the pool; a worker that waited for others could wait forever."""

    is_pooled = False


_worker = _Worker()


def _enlist() -> None:
    _worker.is_pooled = True


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "kernel", _enlist)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
