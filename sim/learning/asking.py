"""Asking: a market that stops wherever a learner decides, and goes on when it is told the action.

The market runs in a greenlet, as it always does, and a learner's strategy switches out of it: no
threads, no limit of time, and the same seed gives the same market whoever answers how late.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from moot.offchain.errors import UsageError
from moot.offchain.plugins import forget_files
from moot.sim.economy.agents import Agent
from moot.sim.economy.config import Config
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.market import Market
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.reporting import Counts, NoRows
from moot.sim.economy.strategies.base import HONEST, Strategy
from moot.sim.economy.streams import Stream
from moot.sim.learning.acting import read_action
from moot.sim.learning.extra import refuse
from moot.sim.learning.observing import Memory, Observation, observe

try:
    from greenlet import GreenletExit, getcurrent, greenlet
    from greenlet import error as GreenletError  # noqa: N812 - a class
except ImportError as error:
    raise refuse(error) from error

if TYPE_CHECKING:
    from moot.sim.economy.population import Population


class Question(NamedTuple):
    """A question to a learner: who is asked, about which job, and what it sees."""

    agent: str
    job: Job
    observation: Observation


@dataclass
class Asking(Strategy):
    """The strategy of whoever is asked by an environment, which steps the market."""

    learns: ClassVar[bool] = True
    _seat: "Seat | None" = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(getcurrent(), _Run):
            raise UsageError(
                "a learner is asked by an environment: step the market with "
                "moot.MarketEnvironment, or choose another strategy"
            )

    def sit(self, seat: "Seat") -> None:
        """Be a learner from now on; whoever comes later does what is agreed."""
        self._seat = seat

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Ask for a provider's conduct."""
        del stream
        return HONEST if self._seat is None else self._seat.ask(job, own)

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Ask for a watcher's conduct."""
        del stream
        return None if self._seat is None else self._seat.ask(job, own)

    def hear(self, news: News) -> bool:
        """Remember what a job came to, and what it brought."""
        if self._seat is not None:
            self._seat.memory.hear(news)
            self._seat.earned_gwei += news.profit_gwei
        return False


@dataclass(slots=True)
class Seat:
    """The seat of a learner in a market that runs.

    Attributes:
        agent: whose it is.
        conducts: what its actions mean, from action 1 on.
        people: who show it what it has itself.
        memory: of the jobs that it has heard of.
        earned_gwei: what jobs have brought it since somebody last took note of it.
        problem: why its last action was none; empty if it was one.
    """

    agent: Agent
    conducts: Sequence[str]
    people: "Population"
    memory: Memory = field(default_factory=Memory)
    earned_gwei: int = 0
    problem: str = ""

    def ask(self, job: Job, own: Own) -> str | None:
        """Stop the market until there is an action; return its conduct, None for a forfeit."""
        question = Question(self.agent.name, job, observe(job, own, self.memory))
        action = getcurrent().parent.switch(question)
        conduct, self.problem = read_action(action, self.conducts)
        if self.problem:
            self.agent.forfeit(self.problem)
        return conduct

    def observe(self) -> Observation:
        """Return what it sees while it is asked nothing."""
        return observe(None, self.people.show(self.agent), self.memory)

    def collect(self) -> int:
        """Return what it has earned, and begin anew."""
        earned, self.earned_gwei = self.earned_gwei, 0
        return earned


class _Run(greenlet):  # type: ignore[misc] # publishes no types
    """A market's run, apart from whoever steps it."""

    def __init__(self, game: "Game") -> None:
        super().__init__()
        self._game = game

    def run(self, *_: object) -> None:
        """Play the market to its end; what the first switch has brought answers nothing."""
        self._game.play()


class Game:
    """One run of a market with learners, from one question to the next.

    Args:
        config: the market; its learners are the groups that `conducts` names.
        conducts: of each learner, by the name of its group, what its actions mean.
        outcomes: say what jobs come to.

    Attributes:
        seats: of the learners, by their names, as soon as it has begun.
        counts: of the run; None until its end.
    """

    def __init__(
        self, config: Config, conducts: Mapping[str, Sequence[str]], outcomes: Outcomes
    ) -> None:
        self._config, self._conducts, self._outcomes = config, conducts, outcomes
        self._run = _Run(self)
        self.seats: dict[str, Seat] = {}
        self.counts: Counts | None = None

    def begin(self) -> Question | None:
        """Play up to the first question; return it, None if the market ends without any."""
        forget_files()
        return self._go_on(None)

    def answer(self, action: object) -> Question | None:
        """Answer the last question; return the next one, None if the market ends without any.

        Raises:
            UsageError: this is another thread than that in which it has begun.
            MootError: the run has failed, for the same reasons as any other.
        """
        return self._go_on(action)

    def stop(self) -> None:
        """End the run where it is; of another thread's, which nobody can go on with, nothing."""
        if self._run:
            with suppress(GreenletError):
                self._run.throw(GreenletExit)

    def play(self) -> None:
        """Play the market; called by its own greenlet."""
        market = Market(self._config, self._outcomes, NoRows())
        people = market._people  # noqa: SLF001 - nobody else is shown who is there
        for agent in people.everybody:
            if isinstance(agent.strategy, Asking):
                seat = Seat(agent, self._conducts[agent.strategy_name], people)
                self.seats[agent.name] = seat
                agent.strategy.sit(seat)
        self.counts = market.play()

    def _go_on(self, action: object) -> Question | None:
        if self._run.dead:
            raise UsageError("the market is over; begin another one")
        try:
            self._run.parent = getcurrent()
        except ValueError as error:
            raise UsageError(
                "a market goes on in the thread in which it has begun; step it there, or reset it"
            ) from error
        return cast("Question | None", self._run.switch(action))
