"""The agents of a simulated market: who they are, what they can do, and what they have done."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from sim.economy.config import GWEI, Group
from sim.economy.facts import Job, News, Own
from sim.economy.strategies.base import FREE_RIDE, WATCHER, Strategy
from sim.economy.streams import Stream
from sim.strategies import STRATEGIES

CONDUCTS = frozenset({*STRATEGIES, FREE_RIDE, WATCHER})
"""All that an agent can do about a job."""

PATIENCE_SECONDS = 0.25
"""How long a user's strategy may think about one question."""


@dataclass(slots=True)
class Agent:
    """An agent, and the counts of what it has done.

    Attributes:
        number: of its account.
        name: its strategy's name and a number.
        role: client, provider or watcher.
        strategy_name: as configured.
        strategy: what it does.
        stream: what it draws from.
        entered: the block in which it came.
        reputation: from 0 to 1.
        rated: the block in which that was updated.
        is_guarded: whether its strategy is a user's, which may raise, or never answer.
        complain: is told why an answer is a forfeit.
        bids: whether it has to be asked for its bid, which is its costs if not.
        hears: whether it wants to know what became of its jobs.
    """

    number: int
    name: str
    role: str
    strategy_name: str
    strategy: Strategy
    stream: Stream
    entered: int = 0
    reputation: float = 0.0
    work_gwei: int = 0
    blocks: int = 0
    slots: int = 0
    capital_gwei: int = 0
    complain: Callable[[str], None] = lambda _: None
    is_guarded: bool = False
    rated: int = 0
    busy: int = 0
    jobs: int = 0
    cheated: int = 0
    slashed: int = 0
    forfeits: int = 0
    worked_gwei: int = 0
    fees_gwei: int = 0
    earned_gwei: int = 0
    locked_gwei_blocks: int = 0
    left: int | None = None
    is_bankrupt: bool = False
    place: int = -1
    bids: bool = field(init=False)
    hears: bool = field(init=False)

    def __post_init__(self) -> None:
        kind = type(self.strategy)
        self.bids = self.is_guarded or kind.bid is not Strategy.bid
        self.hears = self.is_guarded or kind.hear is not Strategy.hear

    def bid(self, job: Job, own: Own) -> int | None:
        """Return its bid for a job; None if its strategy has forfeited."""
        if not self.is_guarded:
            return self.strategy.bid(job, own)
        bid = self._ask(lambda: self.strategy.bid(job, own))
        if bid is None or (type(bid) is int and bid >= 0):
            return bid
        self.forfeit(f"bids {bid!r}, and not a whole number of gwei")
        return None

    def decide(self, job: Job, own: Own) -> str | None:
        """Return its conduct as a provider."""
        if not self.is_guarded:
            return self.strategy.decide(job, own, self.stream)
        return self._check(self._ask(lambda: self.strategy.decide(job, own, self.stream)))

    def look(self, job: Job, own: Own) -> str | None:
        """Return its conduct as a watcher."""
        if not self.is_guarded:
            return self.strategy.look(job, own, self.stream)
        return self._check(self._ask(lambda: self.strategy.look(job, own, self.stream)))

    def hear(self, news: News) -> bool:
        """Tell it what became of a job; return whether it leaves."""
        if not self.is_guarded:
            return self.strategy.hear(news)
        return self._ask(lambda: self.strategy.hear(news)) is True

    def _check(self, conduct: object) -> str | None:
        """Return a conduct that there is; anything else is a forfeit."""
        if conduct is None or (isinstance(conduct, str) and conduct in CONDUCTS):
            return conduct
        self.forfeit(f"answers {conduct!r}, which is no conduct")
        return None

    def _ask(self, question: Callable[[], object]) -> object:
        """Ask a user's strategy; whatever it raises, and too long a silence, is a forfeit."""
        try:
            with _limiting(PATIENCE_SECONDS):
                return question()
        except TimeoutError:
            self.forfeit(f"takes longer than {PATIENCE_SECONDS} s for an answer")
            return None
        except Exception as error:  # noqa: BLE001 - a user's strategy may raise anything
            self.forfeit(f"raises {type(error).__name__}: {error}")
            return None

    def forfeit(self, why: str) -> None:
        """Count an answer that is none, or that it can't pay for, and say why."""
        self.forfeits += 1
        self.complain(why)


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


def make_agent(
    number: int, ordinal: int, role: str, group: Group, strategy: Strategy, seed: int
) -> Agent:
    """Return an agent of a group.

    Args:
        number: of its account.
        ordinal: which of its group it is, from 1.
        role: provider or watcher.
        group: its group.
        strategy: its own.
        seed: of the run; its stream depends on that, its role and its number alone.
    """
    short = group.strategy.rpartition("/")[2].replace(".py:", "-")
    return Agent(
        number=number,
        name=f"{short}-{ordinal}",
        role=role,
        strategy_name=group.strategy,
        strategy=strategy,
        stream=Stream(seed, role, number),
        work_gwei=round(group.work_eth * GWEI),
        blocks=group.blocks,
        slots=group.slots,
        capital_gwei=round(group.capital_eth * GWEI),
        is_guarded=".py:" in group.strategy,
    )
