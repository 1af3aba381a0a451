"""Engines: what plays the runs of a sweep, here, in processes of this machine, or on Ray.

Whatever plays it, a run leaves the same part, so that results do not depend on the engine.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Protocol

from moot.offchain.errors import MootError
from moot.sim.experiments.parts import Ended, Play, Progress, play_part
from moot.sim.experiments.plan import Run

AHEAD = 2
"""Runs that each process has been given, the one that it plays included."""


class SweepError(MootError):
    """A process that plays runs ended before its time."""


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
            SweepError: a process ended before its time.
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
        with _open_pool(self.count) as pool:
            yield partial(_play_in_pool, pool, self.count * AHEAD)


def _play_in_pool(
    pool: ProcessPoolExecutor,
    ahead: int,
    play: Play,
    runs: Iterable[Run],
    parts: Path,
    progress: Progress,
) -> Iterator[Ended]:
    """Play runs in a pool that has been given so many at once; see `Player`."""
    del progress
    coming = iter(runs)
    waiting: set[Future[Ended]] = set()
    while True:
        for run in islice(coming, ahead - len(waiting)):
            waiting.add(pool.submit(play_part, play, run, parts))
        if not waiting:
            return
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        try:
            yield from [future.result() for future in done]
        except BrokenProcessPool:
            raise SweepError(
                "a process that plays runs was ended, perhaps for want of memory; "
                "give the command again to go on, with fewer processes (-j)"
            ) from None


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
