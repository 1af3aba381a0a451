"""A table at which learners sit: one market after the other, with their rewards."""

from collections.abc import Mapping

import msgspec
import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.economy.reporting import Counts
from moot.sim.economy.simulate import make_outcomes
from moot.sim.experiments.plan import spawn_seed
from moot.sim.learning.asking import Game, Question, Seat
from moot.sim.learning.observing import Observation
from moot.sim.learning.setting import Setting

DECLINES = "decline"
_MOST_SEED = (1 << 63) - 1


class Table:
    """The markets of an environment, of which one runs at a time.

    Args:
        setting: the market, and who learns in it.

    Attributes:
        actions: of each agent, what its actions mean, from 0 on.
        counts: of the last market that has come to its end; None before.
        asked: who is asked now; empty at the end of a market.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.actions: Mapping[str, tuple[str, ...]] = {
            name: (DECLINES, *setting.conducts[group])
            for name, (group, _) in setting.agents.items()
        }
        self.counts: Counts | None = None
        self.asked = ""
        self._seed, self._markets = setting.config.seed, 0
        self._outcomes = make_outcomes(setting.config)
        self._game: Game | None = None
        self._names = {market: name for name, (_, market) in setting.agents.items()}
        self._shown: dict[str, Observation] = {}

    def reset(self, seed: int | None) -> None:
        """Begin another market, up to its first question.

        Args:
            seed: of the market; None for the next one after that which was given last.

        Raises:
            UsageError: no market can have the seed.
        """
        if seed is not None:
            if not isinstance(seed, (int, np.integer)) or not 0 <= seed <= _MOST_SEED:
                raise UsageError(f"the seed is {seed!r}; choose a whole number from 0 to 2^63 - 1")
            self._seed, self._markets = int(seed), 0
        self.close()
        chosen = spawn_seed(self._seed, self._markets)
        self._markets += 1
        config = msgspec.structs.replace(self._setting.config, seed=chosen)
        if config.fidelity == "mixed":
            self._outcomes = make_outcomes(config)  # which disputes are played is drawn
        self._game = Game(config, self._setting.conducts, self._outcomes)
        question = self._game.begin()
        self._look_up()
        self._take(question)

    def answer(self, action: object) -> str:
        """Answer the question, up to the next one; return why the action was none, if it was."""
        asked = self.asked
        self._take(self._open().answer(action))
        return self._seat(asked).problem

    def reward(self, agent: str) -> float:
        """Return what has become of an agent's wealth since this was asked last, in units."""
        return self._seat(agent).collect() / self._setting.unit_gwei

    def observe(self, agent: str) -> Observation:
        """Return what an agent was shown last."""
        if agent not in self._shown:
            raise UsageError.unknown("agent", agent, self.actions)
        return self._shown[agent].copy()

    def is_gone(self, agent: str) -> bool:
        """Return whether an agent has left the market, of its own will or bankrupt."""
        return self._seat(agent).agent.left is not None

    def close(self) -> None:
        """End the market that runs."""
        if self._game is not None:
            self._game.stop()
        self._game, self.asked = None, ""

    def _open(self) -> Game:
        if self._game is None:
            raise UsageError("the market has not begun; reset it first")
        return self._game

    def _seat(self, agent: str) -> Seat:
        return self._open().seats[self._setting.agents[agent][1]]

    def _look_up(self) -> None:
        """Let everybody see what it is shown while it is asked nothing."""
        self._shown = {name: self._seat(name).observe() for name in self.actions}

    def _take(self, question: Question | None) -> None:
        """Take note of a question, or of the end."""
        if question is None:
            self.counts, self.asked = self._open().counts, ""
            self._look_up()
        else:
            self.asked = self._names[question.agent]
            self._shown[self.asked] = question.observation
