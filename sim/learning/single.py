"""A market as an environment of Gymnasium: one learner among agents that are built in."""

from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config
from moot.sim.economy.reporting import Counts
from moot.sim.learning.extra import refuse
from moot.sim.learning.observing import HIGH, LOW, Observation
from moot.sim.learning.setting import LEARNER, make_setting
from moot.sim.learning.table import Table

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete
except ImportError as error:
    raise refuse(error) from error


class MarketGym(gymnasium.Env[Observation, Any]):
    """A simulated market, step by step, in Gymnasium's form: one agent learns, all others do not.

    A step is an answer about one job, and an episode is a market. Observations, actions, rewards
    and forfeits are those of `MarketEnvironment`. At the end of the market the learner is
    terminated if it has left, and truncated if it is there.

    Args:
        config: a preset, the path of a TOML file, or a configuration.
        conducts: what it can do, with commas between the names; `honest,lazy` of a provider and
            `watcher,free-ride` of a watcher unless others are named.
        set: values of the market by dotted keys; `{"watchers.learner.count": 1}` makes the
            learner a watcher, and without any it is a provider like the first ones.

    Attributes:
        actions: what its actions mean, from 0 on.
        counts: of the last market that has come to its end, as `runs` has them; None before.

    Example:
        >>> import moot
        >>> market = moot.MarketGym("weak-audit", "honest,lazy", set={"jobs": 60})
        >>> observation, info = market.reset(seed=1)
        >>> market.actions, observation.shape
        (('decline', 'honest', 'lazy'), (23,))
        >>> is_over = is_cut = False
        >>> while not (is_over or is_cut):
        ...     observation, reward, is_over, is_cut, info = market.step(2)
        >>> is_over, is_cut
        (False, True)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        config: Config | str = "baseline",
        conducts: str = "",
        *,
        set: dict[str, object] | None = None,  # noqa: A002 - as of `moot.simulate`
    ) -> None:
        setting = make_setting(config, {LEARNER: conducts}, set)
        if len(setting.agents) > 1:
            raise UsageError(
                f"{len(setting.agents)} agents learn; set the count to 1, or take "
                "moot.MarketEnvironment"
            )
        self._table = Table(setting)
        ((self._name, self.actions),) = self._table.actions.items()
        self.observation_space = Box(LOW, HIGH, dtype=LOW.dtype.type)
        self.action_space = Discrete(len(self.actions))
        self._is_open = False

    @property
    def counts(self) -> Counts | None:
        """The counts of the last market that has come to its end; None before."""
        return self._table.counts

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a market; return what the learner sees.

        Args:
            seed: its seed, as in a configuration. Without one the first market has that of the
                configuration, and each other one a seed that follows from the last that was given.
            options: there are none.

        Raises:
            UsageError: the seed is impossible.
        """
        del options
        self._table.reset(seed)
        super().reset(seed=seed)
        self._is_open = True
        return self._table.observe(self._name), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act, and go on to the next question.

        Returns:
            What the learner sees, its reward, whether it is terminated, whether it is truncated,
            and, if the action was none, the reason as `forfeit`.

        Raises:
            UsageError: the market is over, or has not begun.
        """
        if not self._is_open:
            raise UsageError("the market is over, or has not begun; reset it before the next step")
        was_asked = bool(self._table.asked)  # or else a market has ended without any question
        problem = self._table.answer(action) if was_asked else ""
        reward = self._table.reward(self._name)
        self._is_open = bool(self._table.asked)
        is_over = not self._is_open and self._table.is_gone(self._name)
        is_cut = not self._is_open and not is_over
        info = {"forfeit": problem} if problem else {}
        return self._table.observe(self._name), reward, is_over, is_cut, info

    def close(self) -> None:
        """End the market where it is."""
        self._is_open = False
        self._table.close()
