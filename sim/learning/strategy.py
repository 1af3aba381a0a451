"""A policy as a strategy: what was learned with an environment takes part in any market."""

from collections.abc import Callable
from dataclasses import dataclass, field

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream
from moot.sim.learning.acting import PROVIDERS, WATCHERS, read_action, read_conducts
from moot.sim.learning.observing import Memory, Observation, observe


@dataclass
class PolicyStrategy(Strategy):
    """The strategy of a policy: a function from an observation to an action.

    An observation has the numbers that `MarketEnvironment` shows. Action 0 declines, and action k
    is the k-th of `conducts`. An action that is none is a forfeit, with its reason. A file of a
    user's has a subclass with a method `act`, instead of `policy`.

    Attributes:
        policy: the function; each agent gets a copy of it.
        conducts: names with commas between them; empty for `honest,lazy` of providers, and
            `watcher,free-ride` of watchers.

    Example:
        >>> import moot
        >>> def policy(observation):
        ...     return 2 if observation[4] < 0.05 else 1  # where audits are rare, it lies
        >>> liar = moot.PolicyStrategy(policy, conducts="honest,lazy")
        >>> results = moot.simulate("weak-audit", providers=[("honest", 3), (liar, 2)], jobs=40)
        >>> rows = {row["strategy"]: row for row in results.sum_strategies()}
        >>> rows["PolicyStrategy"]["cheated"] == rows["PolicyStrategy"]["jobs"]
        True
    """

    policy: Callable[[Observation], object] | None = None
    conducts: str = ""
    _memory: Memory = field(init=False, repr=False, default_factory=Memory)
    _named: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        if self.conducts:
            self._named = read_conducts(self.conducts)

    def act(self, observation: Observation, stream: Stream) -> object:
        """Return an action; a subclass says which, and may draw from its agent's stream."""
        del stream
        if self.policy is None:
            raise UsageError("a policy is lacking; give `policy`, or write `act` in a subclass")
        return self.policy(observation)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Let the policy choose a provider's conduct; raises UsageError if it chooses none."""
        return self._choose(job, own, stream, self._named or PROVIDERS)

    def look(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Let the policy choose a watcher's conduct; raises UsageError if it chooses none."""
        return self._choose(job, own, stream, self._named or WATCHERS)

    def hear(self, news: News) -> bool:
        """Remember what became of a job."""
        self._memory.hear(news)
        return False

    def _choose(self, job: Job, own: Own, stream: Stream, conducts: tuple[str, ...]) -> str | None:
        action = self.act(observe(job, own, self._memory), stream)
        conduct, problem = read_action(action, conducts)
        if problem:
            raise UsageError(problem)
        return conduct
