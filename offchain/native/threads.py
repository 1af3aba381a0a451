"""The threads on which kernels run.

Kernels release the interpreter lock, so plain Python threads share the work: the parts of a result
are disjoint ranges, and each is computed by one thread in the order that the arithmetic fixes.
Results therefore never depend on the number of threads. Idle threads block in the operating system.
Numba's own pools are not used: its OpenMP layer spins and fights torch's threads for the cores, its
work queue may not be entered from two threads at once, and both make kernels several times slower
to compile. (torch's own idle threads spin for some milliseconds after each of its parallel regions;
`torch.set_num_threads(1)` avoids that.)

The thread that shares out work takes its ranges from the front, helpers take theirs from the back.
So a core is given about the same rows by one operator after the other, which its own cache has.

An operating system that likes to leave cores idle puts a woken thread on the core of the thread
that wakes it, and takes milliseconds to part the two. So the thread that shares out work stays on
its core meanwhile, and helpers are kept off that core.
"""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate, pairwise
from queue import SimpleQueue

from offchain.arithmetic.environment import require_standard, set_standard_environment

_SMALLEST_PART = 64
"""The last ranges are this part of all work: so little is all that threads wait for each other."""

_SHARE = 2
"""A range is this part of what is left for each thread, so that one may begin late."""

MAX_THREADS = 256
"""Threads that kernels use at most; some thousands exhaust a process's memory for stacks."""

_get_core = getattr(ctypes.PyDLL(None), "sched_getcpu", None)

_Work = Callable[[int, int], object]


def _get_cores() -> set[int]:
    """Return the cores that the calling thread may run on; none where threads can't be bound."""
    return os.sched_getaffinity(0) if _get_core else set()


_threads = min(len(_get_cores()) or os.cpu_count() or 1, MAX_THREADS)


def set_threads(count: int) -> None:
    """Let kernels use `count` threads from now on, in the whole process.

    Raises:
        ValueError: `count` is not a number from 1 to `MAX_THREADS`.
    """
    if count < 1:
        raise ValueError(f"kernels need at least one thread, not {count}")
    if count > MAX_THREADS:
        raise ValueError(f"kernels use at most {MAX_THREADS} threads, not {count}")
    global _threads  # noqa: PLW0603 - one setting for the process, as in torch and numba
    _threads = count


def get_threads() -> int:
    """Threads that kernels use; at first one for each core that this process may run on."""
    return _threads


def share(work: _Work, items: int, grain: int) -> None:
    """Call `work(start, stop)` on ranges that partition `range(items)`, on several threads.

    The calling thread takes its part. Work that shares out work itself does that on its own thread.

    Args:
        work: computes the items of one range; ranges are independent of each other.
        items: number of items.
        grain: fewest items that are worth another thread, some 100 microseconds of work; ranges
            start at multiples of it.
    """
    grains = -(-items // grain)
    if _threads == 1 or grains <= 1 or _thread.is_sharing:
        work(0, items)
        return
    bounds = _divide(grains, _threads)
    ranges = deque(pairwise(min(items, bound * grain) for bound in bounds))
    idle = _get_idle(_threads)
    helpers = _take(idle, min(len(ranges), _threads) - 1)
    tasks = [_Task(work, ranges) for _ in helpers]
    with _staying() as core:
        try:
            for helper, task in zip(helpers, tasks, strict=True):
                helper.start(task, core)
            _work_off(work, ranges, ranges.popleft)
        finally:
            errors = [error for task in tasks if (error := task.finish())]
            idle.extend(helpers)
    if errors:
        raise errors[0]


def _divide(grains: int, threads: int) -> list[int]:
    """Return where ranges of some grains begin, and the end: large at both ends, small between."""
    least = max(1, grains // _SMALLEST_PART)
    sizes: list[int] = []
    left = grains
    while left:
        sizes.append(min(left, max(least, -(-left // (_SHARE * threads)))))
        left -= sizes[-1]
    return [0, *accumulate(sizes[0::2] + sizes[1::2][::-1])]


@contextmanager
def _staying() -> Iterator[int | None]:
    """Keep the calling thread on its core, and yield that core; None where it can't be known."""
    if not _get_core:
        yield None
        return
    cores, core = _get_cores(), _get_core()
    _bind(0, {core})
    try:
        yield core
    finally:
        _bind(0, cores)


def _bind(thread: int, cores: set[int]) -> None:
    """Let a thread run on these cores only, if the system lets us say so."""
    with suppress(OSError):
        os.sched_setaffinity(thread, cores)


def _work_off(
    work: _Work, ranges: deque[tuple[int, int]], take: Callable[[], tuple[int, int]]
) -> None:
    """Work until no range is left; after an error, drop the ranges that are."""
    _thread.is_sharing = True
    try:
        while ranges:
            try:
                first, stop = take()
            except IndexError:  # another thread was faster
                return
            work(first, stop)
    except BaseException:
        ranges.clear()
        raise
    finally:
        _thread.is_sharing = False


class _Thread(threading.local):
    """A thread's note that it works on shared work, of which it must not wait for other parts."""

    is_sharing = False


_thread = _Thread()


class _Task:
    """A helper's part of shared work, which is left out if all is done before the helper wakes."""

    def __init__(self, work: _Work, ranges: deque[tuple[int, int]]) -> None:
        self._work = work
        self._ranges = ranges
        self._claim = threading.Lock()
        self._running = threading.Lock()
        self._running.acquire()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Work off ranges, unless the thread that shares the work out has finished."""
        if not self._claim.acquire(blocking=False):
            return
        set_standard_environment()  # whatever the thread inherited, or was left with
        try:
            _work_off(self._work, self._ranges, self._ranges.pop)
            require_standard()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that asked
            self._error = error
        finally:
            self._running.release()

    def finish(self) -> BaseException | None:
        """Wait until the helper is done, if it has begun, and return its error."""
        if not self._claim.acquire(blocking=False):
            self._running.acquire()
        return self._error


class _Helper:
    """A thread that waits for tasks."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._cores = _get_cores()
        self._avoided: int | None = None
        self._thread = threading.Thread(target=_run, args=[self._tasks], name="kernel", daemon=True)
        self._thread.start()

    def start(self, task: _Task, core: int | None) -> None:
        """Begin a task soon, on another core than this one."""
        if core != self._avoided and self._cores - {core}:
            self._avoided = core
            _bind(self._thread.native_id or 0, self._cores - {core})
        self._tasks.put(task)


def _run(tasks: "SimpleQueue[_Task]") -> None:
    while True:
        tasks.get().run()


def _take(idle: deque[_Helper], most: int) -> list[_Helper]:
    """Return some helpers; fewer while others have them."""
    taken: list[_Helper] = []
    with suppress(IndexError):
        while len(taken) < most:
            taken.append(idle.pop())
    return taken


@cache
def _get_idle(threads: int) -> deque[_Helper]:
    return deque(_Helper() for _ in range(threads - 1))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_get_idle.cache_clear)  # threads do not survive a fork
