"""Streams of random numbers, one for each purpose and each agent, that do not disturb each other.

A stream depends on (seed, purpose, number) alone: who else takes part changes nothing in it. That
is what lets an attack be compared with its honest twin.
"""

import math
import zlib

import numpy as np

_CHUNK = 256


class Stream:
    """A stream of random numbers, drawn ahead in chunks.

    Args:
        seed: of the run.
        purpose: what is drawn, such as `arrivals`.
        number: of the agent it is drawn for; 0 if it is drawn for no agent.
    """

    __slots__ = ("_ahead", "_rng")

    def __init__(self, seed: int, purpose: str, number: int = 0) -> None:
        words = [seed, zlib.crc32(purpose.encode()), number]
        self._rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
        self._ahead: list[float] = []

    def draw(self) -> float:
        """Return a number between 0 and 1, 1 excluded."""
        if not self._ahead:
            self._ahead = self._rng.random(_CHUNK).tolist()
        return self._ahead.pop()

    def draw_index(self, count: int) -> int:
        """Return a whole number below `count`."""
        return int(self.draw() * count)

    def draw_waiting(self, rate: float) -> float:
        """Return the time to the next of events that happen `rate` times in a unit of time."""
        return -math.log1p(-self.draw()) / rate

    def draw_normal(self) -> float:
        """Return a number with mean 0 and variance 1, normally distributed."""
        radius = math.sqrt(-2.0 * math.log1p(-self.draw()))
        return radius * math.cos(2.0 * math.pi * self.draw())
