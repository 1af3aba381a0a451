"""The head of a chain, followed at one question a block."""

import time
from collections.abc import Callable
from typing import Protocol

FIRST_WAIT_S = 0.1
IDLE_SHARE = 1.02
"""The share of a block's time from one look to the next of an idle program."""
EAGER_SHARE = 0.125
MEMORY_BLOCKS = 32
"""The mean time between blocks is that of this many to twice as many of the latest."""
LONGEST_WAIT_S = 15.0


class Heights(Protocol):
    """Whatever knows the number of the latest block."""

    def block_number(self) -> int:
        """Return the number of the latest block."""


class Head:
    """A follower of the latest block, which learns the time between blocks as it goes.

    An idle program looks a little less than once a block; an eager one eight times.

    Args:
        chain: whose head it is, a `Chain` for example.
        sleep: waits for so many seconds, or less; what a program that is to end replaces.
        now: a clock, in seconds.

    Attributes:
        number: the latest block that was seen.
        looks: how often the chain was asked.
    """

    def __init__(
        self,
        chain: Heights,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._chain = chain
        self._sleep = sleep
        self.number = chain.block_number()
        self.looks = 1
        self._older = self._newer = self.number, self._now()
        self._block_s = 0.0

    def follow(self, patience_s: float, *, is_eager: bool = False) -> int | None:
        """Wait for another block, and return its number; None if there is none in time.

        A chain that has become shorter has another block, too: that it now ends with.
        """
        deadline = self._now() + patience_s
        unknown_s = FIRST_WAIT_S
        while (remaining := deadline - self._now()) > 0:
            wait = self._block_s * (EAGER_SHARE if is_eager else IDLE_SHARE) or unknown_s
            unknown_s *= 2
            wait = min(wait, LONGEST_WAIT_S)
            self._sleep(min(wait, remaining))
            if wait > remaining:
                return None
            number = self._chain.block_number()
            self.looks += 1
            if number != self.number:
                self._learn(number)
                return number
        return None

    def _learn(self, number: int) -> None:
        now = self._now()
        if number < self.number:  # and how fast the blocks came that are gone says nothing
            self._older = self._newer = number, now
            self._block_s = 0.0
        first, since = self._older
        if number > first:
            self._block_s = (now - since) / (number - first)
        if number - self._newer[0] >= MEMORY_BLOCKS:
            self._older, self._newer = self._newer, (number, now)
        self.number = number
