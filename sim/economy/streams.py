"""Streams of random numbers, one for each purpose and each agent, that do not disturb each other.

A stream depends on (seed, purpose, number) alone: who else takes part changes nothing in it. That
is what lets an attack be compared with its honest twin.
"""

import math
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from moot.sim.economy.config import GWEI, Config
from moot.sim.traces.series import read_arrivals

_CHUNK = 256

_MOST_ETH = 1e6
"""No job is worth more."""

_MANY = 4096
"""Jobs and blocks that are drawn ahead at once."""


def open_generator(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Return the generator of a stream."""
    words = [seed, zlib.crc32(purpose.encode()), number]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def open_conduct_stream(conduct: str, place: int, number: int) -> np.random.Generator:
    """Return the generator of what a conduct draws in a case, whatever the seed of the run.

    Args:
        conduct: its name; in which folder a user's file lies makes no difference.
        place: how many in the case have the same conduct and come before it.
        number: of the case.
    """
    name = conduct.rpartition("/")[2]
    words = [zlib.crc32(name.encode()), place, number]
    return np.random.default_rng(np.random.SeedSequence(words))


class Stream:
    """A stream of random numbers, drawn ahead in chunks.

    Args:
        seed: of the run.
        purpose: what is drawn, such as `arrivals`.
        number: of the agent it is drawn for; 0 if it is drawn for no agent.
    """

    __slots__ = ("_ahead", "_rng")

    def __init__(self, seed: int, purpose: str, number: int = 0) -> None:
        self._rng = open_generator(seed, purpose, number)
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


class Arrival(NamedTuple):
    """What chance decides about a job, whatever becomes of it.

    Attributes:
        waiting: blocks since the job before.
        client: whose it is, by index.
        value_gwei: what a right answer is worth.
        ticket: 62 bits, from which it is drawn who is asked.
        audited: the job is audited if this is below the rate.
        watcher: where between the first and the last watcher the one is that is asked.
        forced: an error is forced if this is below the rate.
        case: which case it is.
    """

    waiting: float
    client: int
    value_gwei: int
    ticket: int
    audited: float
    watcher: float
    forced: float
    case: int


def draw_arrivals(config: Config) -> Iterator[Arrival]:
    """Yield what chance decides about one job after the other, each purpose from its own stream.

    Where a trace says when jobs arrive, and what they are worth, chance decides the rest.
    """
    drawn = _draw_arrivals(config)
    if not config.clients.arrivals:
        return drawn
    recorded = zip(drawn, read_arrivals(config.clients.arrivals), strict=False)
    return (
        arrival._replace(waiting=waiting)
        if value_eth is None
        else arrival._replace(waiting=waiting, value_gwei=round(value_eth * GWEI))
        for arrival, (waiting, value_eth) in recorded
    )


def _draw_arrivals(config: Config) -> Iterator[Arrival]:
    clients = config.clients
    names = ("arrivals", "clients", "values", "matching", "audits", "watchers", "forced", "cases")
    waiting, who, values, tickets, audits, watchers, forced, cases = (
        open_generator(config.seed, name) for name in names
    )
    rate = clients.jobs_per_block
    never = np.full(_MANY, np.inf)
    while True:
        amounts = clients.value_eth * np.exp(clients.value_spread * values.standard_normal(_MANY))
        np.minimum(amounts, _MOST_ETH, out=amounts)
        columns = (
            waiting.exponential(1.0 / rate, _MANY) if rate else never,
            who.integers(0, clients.count, _MANY),
            np.rint(amounts * GWEI).astype(np.int64),
            tickets.integers(0, 1 << 62, _MANY),
            audits.random(_MANY),
            watchers.random(_MANY),
            forced.random(_MANY),
            cases.integers(0, config.cases, _MANY),
        )
        yield from map(Arrival._make, zip(*(column.tolist() for column in columns), strict=True))


def draw_factors(seed: int, purpose: str, volatility: float) -> Iterator[float]:
    """Yield factors whose logarithms are normal, with mean 0 and this standard deviation."""
    rng = open_generator(seed, purpose)
    while True:
        yield from np.exp(volatility * rng.standard_normal(_MANY)).tolist()
