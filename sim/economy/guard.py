"""Guard around a user's strategy: it catches errors, endless calls and answers of a wrong form."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from moot.sim.economy.facts import Job, News, Own, Pledge
from moot.sim.economy.limit import Faulted, ask, show
from moot.sim.economy.strategies.at_rate import AtRate
from moot.sim.economy.strategies.base import (
    HONEST,
    PROVIDER_CONDUCTS,
    WATCHER_CONDUCTS,
    Strategy,
)
from moot.sim.economy.streams import Stream

AnswerT = TypeVar("AnswerT")

MOST = 1024
"""On how many chains a provider may give receipts: who has more has no clients for them."""

DECLINES = -1
"""The bid of a strategy that has forfeited it."""


@dataclass
class Guard(Strategy):
    """A strategy that asks another one, and forfeits what that does not answer.

    Attributes:
        guarded: a user's strategy.
        forfeit: is told why an answer is a forfeit.
        silences: how often it did not answer in time.
    """

    guarded: Strategy
    forfeit: Callable[[str], None]
    silences: int = field(init=False, default=0)
    _problem: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        self.censor_share = self.guarded.censor_share

    def bid(self, job: Job, own: Own) -> int:
        """Return its bid; `DECLINES` for a forfeit."""

        def question() -> int:
            bid = self.guarded.bid(job, own)
            if type(bid) is int and bid >= 0:
                return bid
            self._problem = f"bids {show(bid)}, and not a whole number of gwei"
            return DECLINES

        return self._ask(question, DECLINES)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return its conduct as a provider; None for a forfeit."""
        return self._choose(lambda: self.guarded.decide(job, own, stream), self._conducts)

    def pledge(self, job: Job, own: Own) -> Pledge:
        """Return how it signs receipts; honestly for a forfeit."""

        def question() -> Pledge:
            pledge = self.guarded.pledge(job, own)
            if type(pledge) is Pledge and type(pledge.chains) is int and 1 <= pledge.chains <= MOST:
                return pledge
            self._problem = f"signs as {show(pledge)}, and not as a Pledge of 1 to {MOST} chains"
            return Pledge()

        return self._ask(question, Pledge())

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Return its conduct as a watcher; None for a forfeit."""
        return self._choose(lambda: self.guarded.look(job, own, stream), WATCHER_CONDUCTS)

    def hear(self, news: News) -> bool:
        """Tell it; return whether it leaves."""

        def question() -> bool:
            leaves: object = self.guarded.hear(news)
            if leaves is not None and type(leaves) is not bool:
                self._problem = f"hears of a job and answers {show(leaves)}, not True or False"
            return leaves is True

        return self._ask(question, False)

    @property
    def _conducts(self) -> frozenset[str]:
        """What it can do as a provider: any conduct of the table, or the one of its user's file."""
        own = self.guarded.conduct if isinstance(self.guarded, AtRate) else HONEST
        return PROVIDER_CONDUCTS | {own}

    def _choose(self, decide: Callable[[], object], conducts: frozenset[str]) -> str | None:
        def question() -> str | None:
            conduct = decide()
            if conduct is None or (type(conduct) is str and conduct in conducts):
                return conduct
            self._problem = f"answers {show(conduct)}, which is no conduct of its role"
            return None

        return self._ask(question, None)

    def _ask(self, question: Callable[[], AnswerT], forfeited: AnswerT) -> AnswerT:
        """Ask; return what is there instead of an answer for one that is a forfeit."""
        self._problem = ""
        try:
            answer = ask(question)
        except Faulted as fault:
            self._problem, answer = str(fault), forfeited
            self.silences += fault.is_silence
        if self._problem:
            self.forfeit(self._problem)
        return answer
