"""A market as an environment of PettingZoo: learners act one after the other, as they are asked."""

from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config
from moot.sim.learning.extra import refuse
from moot.sim.learning.observing import HIGH, LOW, Observation
from moot.sim.learning.setting import Learners, make_setting
from moot.sim.learning.table import Table

try:
    from gymnasium.spaces import Box, Discrete
    from pettingzoo import AECEnv
except ImportError as error:
    raise refuse(error) from error


class MarketEnvironment(AECEnv[str, Observation, Any]):  # type: ignore[misc] # publishes no types
    """A simulated market, step by step, in PettingZoo's form of agents that act in turn (AEC).

    The learners are agents among all others of the market. Whenever one is asked about a job, the
    market stops: `observe` shows the numbers of docs/how-to/learn.md, action 0 declines, and
    action k is the k-th conduct of its group. There is no limit of time. An action that is none is
    a forfeit, whose reason is in `infos`. A reward is what jobs that were settled since the
    agent's last action have changed of its wealth, as a multiple of `clients.value_eth`. At the
    end of the market whoever has left it is terminated, and all others are truncated.

    Args:
        config: a preset, the path of a TOML file, or a configuration.
        learners: by names that begin with `learner`, the conducts of each group that learns, with
            commas between them; none for `honest,lazy` of providers, and `watcher,free-ride` of
            watchers. A group that the market does not have is one provider like its first ones.
            By default there is one group, `learner`.
        set: values of the market by dotted keys, such as `{"providers.learner.count": 2}`.

    Attributes:
        actions: of each agent, what its actions mean, from 0 on.
        counts: of the last market that has come to its end, as `runs` has them; None before.

    Example:
        >>> import moot
        >>> market = moot.MarketEnvironment("weak-audit", set={"jobs": 60})
        >>> market.reset(seed=1)
        >>> market.agents, market.actions["learner_1"]
        (['learner_1'], ('decline', 'honest', 'lazy'))
        >>> for agent in market.agent_iter():
        ...     observation, reward, is_over, is_cut, info = market.last()
        ...     market.step(None if is_over or is_cut else 1)
        >>> market.counts.jobs
        30
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo's form
        "name": "moot_market_v0",
        "render_modes": [],
        "is_parallelizable": False,
    }
    render_mode = None

    def __init__(
        self,
        config: Config | str = "baseline",
        learners: Learners | None = None,
        *,
        set: dict[str, object] | None = None,  # noqa: A002 - as of `moot.simulate`
    ) -> None:
        super().__init__()
        self._table = Table(make_setting(config, learners, set))
        self.actions = self._table.actions
        self.possible_agents = list(self.actions)
        self.agents: list[str] = []
        self.observation_spaces = {
            name: Box(LOW, HIGH, dtype=LOW.dtype.type) for name in self.possible_agents
        }
        self.action_spaces = {name: Discrete(len(its)) for name, its in self.actions.items()}

    @property
    def counts(self) -> Any:
        """The counts of the last market that has come to its end; None before."""
        return self._table.counts

    def observation_space(self, agent: str) -> Box:
        """Return the space of an agent's observations: all agents have the same bounds."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a market.

        Args:
            seed: its seed, as in a configuration. Without one the first market has that of the
                configuration, and each other one a seed that follows from the last that was given.
            options: there are none.

        Raises:
            UsageError: the seed is impossible.
        """
        del options
        self._table.reset(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {name: {} for name in self.agents}
        self._skip_agent_selection = None
        self._turn()

    def observe(self, agent: str) -> Observation:
        """Return what an agent was shown last; facts of a job are 0 if it is asked nothing."""
        self._check_begun()
        return self._table.observe(agent)

    def last(self, observe: bool = True) -> Any:  # noqa: FBT001, FBT002 - PettingZoo's form
        """Return what the agent whose turn it is sees, its reward, its two ends, and its info."""
        self._check_begun()
        return super().last(observe)

    def step(self, action: Any) -> None:
        """Let the agent whose turn it is act, and go on to the next question.

        Args:
            action: its action; None of an agent that is terminated or truncated.

        Raises:
            UsageError: the market is over, or has not begun.
        """
        self._check_begun()
        if not self.agents:
            raise UsageError("the market is over; reset it before the next step")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        problem = self._table.answer(action)
        self._cumulative_rewards[agent] = 0.0
        self.rewards = {name: self._table.reward(name) for name in self.agents}
        self.infos = {name: {} for name in self.agents}
        if problem:
            self.infos[agent] = {"forfeit": problem}
        self._turn()
        self._accumulate_rewards()

    def render(self) -> None:
        """Show nothing: a market has its tables, and `moot report` draws them."""

    def close(self) -> None:
        """End the market where it is."""
        self._table.close()

    def _check_begun(self) -> None:
        if not hasattr(self, "agent_selection"):
            raise UsageError("the market has not begun; reset it first")

    def _turn(self) -> None:
        """Let whoever is asked be the next to act; all are over if nobody is."""
        if self._table.asked:
            self.agent_selection = self._table.asked
            return
        for name in self.agents:
            self.terminations[name] = self._table.is_gone(name)
            self.truncations[name] = not self.terminations[name]
        self.agent_selection = self.agents[0]
