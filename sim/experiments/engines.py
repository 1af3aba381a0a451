"""Engines: what plays the runs of a sweep, here, in processes of this machine, or on Ray.

Whatever plays it, a run leaves the same part, so that results do not depend on the engine.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Protocol

from moot.offchain.errors import MootError
from moot.sim.experiments.parts import Ended, Play, Progress, play_part
from moot.sim.experiments.plan import Run

TRIES = 3
"""How often a run is tried whose process dies, the first time included."""

AHEAD = 2
"""Runs that each process has been given, the one that it plays included."""


class SweepError(MootError):
    """Processes that play runs ended before their time, again and again."""


class Player(Protocol):
    """A function that plays runs."""

    def __call__(
        self, play: Play, runs: Iterable[Run], parts: Path, progress: Progress
    ) -> Iterator[Ended]:
        """Play runs, and yield each one's end as it comes, in any order.

        Args:
            play: a function of a module, which plays one run.
            runs: the runs.
            parts: the folder in which each leaves its part.
            progress: is told how far the current run is, if one is played after the other.

        Raises:
            CannotWrite: the operating system refuses to write a part.
            SweepError: processes ended before their time, as often as a run is tried.
        """


class Engine(Protocol):
    """Whatever plays runs."""

    def open(self) -> AbstractContextManager[Player]:
        """Make ready to play, for as long as the context lasts; raises UsageError if it can't."""


@dataclass(frozen=True, slots=True)
class Here:
    """The engine that plays runs in this process, one after the other."""

    @contextmanager
    def open(self) -> Iterator[Player]:
        """Make ready to play; see `Engine`."""
        yield play_here


def play_here(play: Play, runs: Iterable[Run], parts: Path, progress: Progress) -> Iterator[Ended]:
    """Play runs one after the other; see `Player`."""
    for run in runs:
        yield play_part(play, run, parts, progress)


@dataclass(frozen=True, slots=True)
class Processes:
    """The engine that plays runs in processes of this machine.

    They are `concurrent.futures`' own, of the standard library, which notices when one dies; they
    are spawned, so that no lock or thread of this process is copied into them; and they end with
    this process, however that ends.
    """

    count: int

    @contextmanager
    def open(self) -> Iterator[Player]:
        """Make ready to play; see `Engine`."""
        with ExitStack() as pools:
            yield partial(_play_in_pools, _Pools(self.count, pools))


class _Pools:
    """A pool of processes, and another one when it has died.

    Args:
        count: how many processes there are at once.
        stack: closes all pools.
    """

    def __init__(self, count: int, stack: ExitStack) -> None:
        self.count, self._stack = count, stack
        self._pool: ProcessPoolExecutor | None = None

    def take(self) -> ProcessPoolExecutor:
        """Return a pool that is alive, as far as anybody knows."""
        if self._pool is None:
            self._pool = self._stack.enter_context(_open_pool(self.count))
        return self._pool

    def bury(self) -> None:
        """Let the next pool be another one."""
        self._pool = None


def _play_in_pools(
    pools: _Pools, play: Play, runs: Iterable[Run], parts: Path, progress: Progress
) -> Iterator[Ended]:
    """Play runs in a pool of processes, and in another one when a process dies; see `Player`.

    A dead process takes its pool along, and nobody knows which run it had: all that were lost are
    tried again, each a few times at most.
    """
    del progress
    coming, losses = iter(runs), Counter[int]()
    lost: list[Run] = []
    while True:
        waiting = chain(lost, coming)
        lost = yield from _play_in_pool(pools.take(), pools.count * AHEAD, play, waiting, parts)
        if not lost:
            return
        pools.bury()
        losses.update(run.number for run in lost)
        if max(losses.values()) == TRIES:
            raise SweepError(
                f"a run was lost {TRIES} times with the process that played it, perhaps for want "
                "of memory; give the command again to go on, with fewer processes (-j)"
            )
        for run in lost:  # its part may be there, without the word that it is
            shutil.rmtree(parts / str(run.number), ignore_errors=True)


def _play_in_pool(
    pool: ProcessPoolExecutor, ahead: int, play: Play, runs: Iterator[Run], parts: Path
) -> Generator[Ended, None, list[Run]]:
    """Play runs in a pool that is given so many at once; return those that died with it."""
    waiting: dict[Future[Ended], Run] = {}
    lost: list[Run] = []
    while True:
        if not lost:
            for run in islice(runs, ahead - len(waiting)):
                waiting[_submit(pool, play, run, parts)] = run
        if not waiting:
            return lost
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            run = waiting.pop(future)
            try:
                ended = future.result()
            except BrokenProcessPool:
                lost.append(run)
            else:
                yield ended


def _submit(pool: ProcessPoolExecutor, play: Play, run: Run, parts: Path) -> Future[Ended]:
    """Give a pool a run; if the pool has died, what comes of it is that."""
    try:
        return pool.submit(play_part, play, run, parts)
    except BrokenProcessPool as error:
        died: Future[Ended] = Future()
        died.set_exception(error)
        return died


_QUIETLY = "ignore:resource_tracker"
"""What keeps Python's tracker from warning of the locks of processes that were ended."""


@contextmanager
def _open_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes; if something goes wrong, they end at once."""
    if _QUIETLY not in sys.warnoptions:
        sys.warnoptions.append(_QUIETLY)  # the tracker is started with these options
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=_prepare_process)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _prepare_process() -> None:
    """Let this process ignore the keyboard, and end with the process that has started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
