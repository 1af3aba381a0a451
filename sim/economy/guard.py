"""The guard of a user's strategy, which may raise, never answer, or answer what is no answer."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from sim.economy.facts import Job, News, Own
from sim.economy.strategies.base import FREE_RIDE, WATCHER, Strategy
from sim.economy.streams import Stream
from sim.strategies import STRATEGIES

CONDUCTS = frozenset({*STRATEGIES, FREE_RIDE, WATCHER})
"""All that an agent can do about a job."""

PATIENCE_SECONDS = 0.25
"""How long a user's strategy may think about one question."""

DECLINES = -1
"""The bid of a strategy that has forfeited it."""


@dataclass
class Guard(Strategy):
    """A strategy that asks another one, and forfeits what that does not answer.

    Attributes:
        guarded: a user's strategy.
        forfeit: is told why an answer is a forfeit.
    """

    guarded: Strategy
    forfeit: Callable[[str], None]

    def __post_init__(self) -> None:
        self.censor_share = self.guarded.censor_share

    def bid(self, job: Job, own: Own) -> int:
        """Return its bid; `DECLINES` for a forfeit."""
        bid = self._ask(lambda: self.guarded.bid(job, own))
        if type(bid) is int and bid >= 0:
            return bid
        if bid is not None:
            self.forfeit(f"bids {bid!r}, and not a whole number of gwei")
        return DECLINES

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return its conduct as a provider; None for a forfeit."""
        return self._check(self._ask(lambda: self.guarded.decide(job, own, stream)))

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return its conduct as a watcher; None for a forfeit."""
        return self._check(self._ask(lambda: self.guarded.look(job, own, stream)))

    def hear(self, news: News) -> bool:
        """Tell it; return whether it leaves."""
        return self._ask(lambda: self.guarded.hear(news)) is True

    def _check(self, conduct: object) -> str | None:
        if conduct is None or (isinstance(conduct, str) and conduct in CONDUCTS):
            return conduct
        self.forfeit(f"answers {conduct!r}, which is no conduct")
        return None

    def _ask(self, question: Callable[[], object]) -> object:
        try:
            with _limiting(PATIENCE_SECONDS):
                return question()
        except TimeoutError:
            self.forfeit(f"takes longer than {PATIENCE_SECONDS} s for an answer")
        except Exception as error:  # noqa: BLE001 - a user's strategy may raise anything
            self.forfeit(f"raises {type(error).__name__}: {error}")
        return None


@contextmanager
def _limiting(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in whatever takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
