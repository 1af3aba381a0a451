"""The threads on which kernels run.

Kernels release the interpreter lock, so plain Python threads share the work: the parts of a result
are disjoint ranges, and each is computed by one thread in the order that the arithmetic fixes.
Results therefore never depend on the number of threads. The threads are one team, which machine
code shares work out to (`team.py`); idle ones soon block in the operating system. Numba's own pools
are not used: its OpenMP layer spins and fights torch's threads for the cores, its work queue may
not be entered from two threads at once, and both make kernels several times slower to compile.
(torch's own idle threads spin for some milliseconds after each of its parallel regions;
`torch.set_num_threads(1)` avoids that.)

The thread that shares out work takes its ranges from the front, helpers take theirs from the back.
So a core is given about the same rows by one operator after the other, which its own cache has.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.environment import (
    get_environment_addresses,
    require_standard,
    set_standard_environment,
)
from moot.offchain.native import team

MAX_THREADS = 256
"""Threads that kernels use at most; some thousands exhaust a process's memory for stacks."""

_SPINS = 1 << 11
"""How often a helper looks for work before it sleeps: some 50 microseconds."""

_LOCK_BYTES = 64
"""Room for a mutex and for a condition of the C library."""

_Work = Callable[[int, int], object]
_Word = TypeVar("_Word")

_C = ctypes.CDLL(None)


def _find(name: str) -> int:
    """Return the address of a function of the C library."""
    return ctypes.cast(_C[name], ctypes.c_void_p).value or 0


def _find_cores() -> set[int]:
    """Return the cores that the calling thread may run on; none where threads can't be bound."""
    return os.sched_getaffinity(0) if hasattr(_C, "sched_getcpu") else set()


_threads = min(len(_find_cores()) or os.cpu_count() or 1, MAX_THREADS)


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
    _team.set_members(count)


def get_threads() -> int:
    """Threads that kernels use; at first one for each core that this process may run on."""
    return _threads


def share(work: _Work, items: int, grain: int) -> None:
    """Call `work(start, stop)` on ranges that partition `range(items)`, on several threads.

    The calling thread takes its part. Work that shares out work itself does that on its own thread.

    Args:
        work: computes the items of one range; ranges are independent of each other.
        items: number of items.
        grain: fewest items that are worth another thread, some 20 microseconds of work; ranges
            start at multiples of it.
    """
    if _threads == 1 or items <= grain:
        work(0, items)
    else:
        _team.share(work, items, grain)


def make_task(
    entry: int, words: Sequence[_Word], grain: int, at: int, scratch: tuple[int, int] | None
) -> tuple[int | _Word, ...]:
    """Return a task of as many threads as kernels use now, as `team.py` has it.

    Args:
        entry: the address of a function of words.
        words: its words for all items, from 0 on.
        grain: fewest items that are worth another thread, as in `share`.
        at: which of the words is 0; the next is the number of items.
        scratch: which of the words is the address of scratch memory, and how many bytes of it each
            thread has.
    """
    at %= len(words)
    first, items = words[at : at + 2]
    assert first == 0
    assert len(words) <= team.MOST_WORDS, f"a task has {len(words)} words"
    return (entry, len(words), at, items, grain, *(scratch or (-1, 0)), _threads, *words)


def share_call(
    entry: int,
    words: Sequence[int],
    grain: int,
    at: int = -2,
    scratch: tuple[int, int] | None = None,
) -> None:
    """Call machine code on ranges of items, on several threads, as `make_task` has it.

    No thread waits for the interpreter between its ranges, as it does in `share`.
    """
    task = make_task(entry, words, grain, at, scratch)
    _team.share_task((ctypes.c_int64 * len(task))(*task))


def get_team() -> int:
    """Return the address of the team, as `team.py` has it, once its helpers serve."""
    return _team.hire()


def _list_sets(cores: set[int]) -> npt.NDArray[np.uint8]:
    """Return for each core the set of all others, as the system has sets of cores."""
    rows = max(cores) + 1
    bits = np.zeros((rows, 8 * team.SET_BYTES), np.uint8)
    bits[:, sorted(cores)] = 1
    bits[np.arange(rows), np.arange(rows)] = 0
    return np.packbits(bits, axis=1, bitorder="little")


class _Shared:
    """Work that is shared out, and the first error that a range of it met."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._owner = threading.get_ident()
        self.error: BaseException | None = None

    def run(self, first: int, stop: int) -> None:
        """Compute a range, unless another one has failed."""
        if self.error is not None:
            return
        is_helper = threading.get_ident() != self._owner
        try:
            self._work(first, stop)
            if is_helper:
                require_standard()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that asked
            self.error = error
            if is_helper:
                set_standard_environment()


def _as_function(address: int) -> Callable[[int, int], None]:
    """Return machine code that takes two words; the interpreter lock is free while it runs."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2)(address)


class _Team:
    """The threads of this process that share work, the first of which is whoever shares it out."""

    def __init__(self) -> None:
        self._words = np.zeros(team.THREADS + MAX_THREADS + 8, np.int64)
        start = self._words.ctypes.data
        skipped = -start % 64 // 8
        self._address = start + skipped * 8
        self._state = self._words[skipped:]
        self._numbers = count()
        self._works: dict[int, _Shared] = {}
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(self._run)
        self._hiring = threading.Lock()
        self._hired = 0
        self._set_up()

    def set_members(self, members: int) -> None:
        """Let so many threads share a task."""
        self._state[team.MEMBERS] = members

    def share(self, work: _Work, items: int, grain: int) -> None:
        """Compute all ranges of some work."""
        number, shared = next(self._numbers), _Shared(work)
        self._works[number] = shared
        entry = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        try:
            share_call(entry, (number, 0, items), grain)
        finally:
            del self._works[number]
        if shared.error is not None:
            raise shared.error

    def share_task(self, task: Any) -> None:
        """Compute all of a task, which is an array of words."""
        self._share_out(self.hire(), ctypes.addressof(task))

    def hire(self) -> int:
        """Start the helpers that are missing, and return the team's address."""
        if self._hired >= _threads - 1:
            return self._address
        with self._hiring:
            run = _as_function(team.get_addresses()[1])
            while self._hired < _threads - 1:
                arguments = self._address, self._hired + 1
                thread = threading.Thread(target=run, args=arguments, name="kernel", daemon=True)
                thread.start()
                self._state[team.THREADS + self._hired] = thread.native_id or 0
                self._hired += 1
                self._state[team.HELPERS] = self._hired
            self._state[team.AVOIDED] = -1  # new threads are not kept off any
        return self._address

    @cached_property
    def _share_out(self) -> Callable[[int, int], None]:
        return _as_function(team.get_addresses()[0])

    def dismiss(self) -> None:
        """Forget the helpers and what they were at: threads do not survive a fork."""
        self._hiring = threading.Lock()
        self._hired = 0
        self._set_up()

    def _set_up(self) -> None:
        self._locks = ctypes.create_string_buffer(2 * _LOCK_BYTES)
        mutex = ctypes.addressof(self._locks)
        condition = mutex + _LOCK_BYTES
        _C.pthread_mutex_init(ctypes.c_void_p(mutex), None)
        _C.pthread_cond_init(ctypes.c_void_p(condition), None)
        self._state[:] = 0
        self._state[team.MEMBERS], self._state[team.SPINS] = _threads, _SPINS
        functions = [*map(_find, team.NAMES)]
        self._state[team.FUNCTIONS : team.FUNCTIONS + len(functions)] = functions
        self._state[team.MUTEX], self._state[team.CONDITION] = mutex, condition
        self._state[team.ENVIRONMENT] = get_environment_addresses()[2]
        cores = _find_cores()
        if len(cores) > 1 and max(cores) < 8 * team.SET_BYTES:
            self._sets = _list_sets(cores)
            self._state[team.SETS] = self._sets.ctypes.data
            self._state[team.GET_CORE] = _find("sched_getcpu")
            self._state[team.SET_CORES] = _find("sched_setaffinity")

    def _run(self, number: int, first: int, stop: int) -> int:
        self._works[number].run(first, stop)
        return 0


_team = _Team()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.dismiss)
