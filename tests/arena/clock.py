"""Simulated time: who sleeps lets the world go on, and comes back later at once."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from itertools import count
from unittest.mock import patch

from moot.offchain.chain.head import Head

Act = Callable[[], None]


class Clock:
    """A clock, with what is to happen when.

    Attributes:
        now: seconds since the beginning.
        work: seconds that a process beside has computed, as that process's own clock counts.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.work = 0.0
        self._due: list[tuple[float, int, Act]] = []
        self._numbers = count()

    def schedule(self, seconds: float, act: Act) -> None:
        """Let something happen so many seconds from now."""
        heappush(self._due, (self.now + seconds, next(self._numbers), act))

    def sleep(self, seconds: float) -> None:
        """Let so much time pass, with all that happens meanwhile."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, act = heappop(self._due)
            act()
        self.now = max(end, self.now)

    def read(self) -> float:
        """Return the time."""
        return self.now

    def read_work(self) -> float:
        """Return the time as a process reads it that measures its own computation."""
        return self.now + self.work


@contextmanager
def ruled_by(clock: Clock) -> Iterator[None]:
    """Let this process's time be a clock's."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "sleep", clock.sleep))
        stack.enter_context(patch.object(time, "monotonic", clock.read))
        stack.enter_context(patch.object(time, "perf_counter", clock.read_work))
        defaults = (clock.sleep, clock.read)
        stack.enter_context(patch.object(Head.__init__, "__defaults__", defaults))
        yield
