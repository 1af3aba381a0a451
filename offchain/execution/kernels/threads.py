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
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

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

    The calling thread takes its part. Work that shares out work itself does that on its own thread.

    Args:
        work: computes the items of one range; ranges are independent of each other.
        items: number of items.
        grain: fewest items that are worth another thread, some 100 microseconds of work; ranges
            start at multiples of it.
    """
    grains = -(-items // grain)
    count = min(grains, _threads * _RANGES_PER_THREAD)
    if _threads == 1 or count <= 1 or _thread.is_sharing:
        work(0, items)
        return
    bounds = [min(items, grains * i // count * grain) for i in range(count + 1)]
    ranges = deque(pairwise(bounds))
    helpers = min(count, _threads) - 1
    futures = [_pool(_threads).submit(_work_off, work, ranges) for _ in range(helpers)]
    try:
        _work_off(work, ranges)
    finally:
        begun = [future for future in futures if not future.cancel()]
        wait(begun)
    for future in begun:
        future.result()


def _work_off(work: Callable[[int, int], object], ranges: deque[tuple[int, int]]) -> None:
    """Do what is left to do; after an error, nothing is."""
    _thread.is_sharing = True
    try:
        while ranges:
            try:
                first, stop = ranges.popleft()
            except IndexError:  # another thread was faster
                return
            work(first, stop)
    except BaseException:
        ranges.clear()
        raise
    finally:
        _thread.is_sharing = False


class _Thread(threading.local):
    """Whether a thread works on a part of shared work; it could wait forever for other parts."""

    is_sharing = False


_thread = _Thread()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, "kernel")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
