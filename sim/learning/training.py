"""Training: the cross-entropy method looks for the weights of a linear policy.

In each round candidates are drawn about a mean; all of them join the same markets with the same
random numbers, beside their honest twins, and the best of them are the next mean. Rounds have
other seeds, so that nothing is learned by heart. After R. Y. Rubinstein (1999).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.trials import Laboratory
from moot.sim.analysis.twins import try_pairs
from moot.sim.economy.config import Config
from moot.sim.economy.simulate import make_outcomes
from moot.sim.economy.strategies.base import HONEST
from moot.sim.estimates import Estimate, estimate_mean
from moot.sim.experiments.plan import spawn_seed
from moot.sim.learning.acting import read_conducts
from moot.sim.learning.asking import Game
from moot.sim.learning.comparing import Newcomer, admit
from moot.sim.learning.linear import TERMS, Weights, expand, write_weights
from moot.sim.learning.observing import Observation
from moot.sim.learning.setting import LEARNER, make_setting

LINEAR = "linear"
"""The name of the strategy whose weights are looked for."""

FLOOR = 0.1
"""The standard deviation of a weight does not fall below it, so that the search goes on."""

_TRAINING = 1 << 20
"""The number of the stream of seeds of training; repetitions of answers have smaller ones."""

_HONEST_SHARE = 0.9
"""In which share of their jobs agents are honest of whom it is learned what there is to see."""

_TINY = 1e-9
"""A number that varies by less is the same for everybody, and has no weight."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a policy.

    Attributes:
        config: the market that its agents join.
        conducts: what they can do instead of honest work.
        count: how many join.
        rounds: how many rounds there are.
        candidates: of each round.
        kept: how many of them make the next mean.
        reps: the markets of each candidate in each round.
        seed: of all that is drawn, and of the markets.
    """

    config: Config
    conducts: tuple[str, ...] = ("lazy",)
    count: int = 2
    rounds: int = 12
    candidates: int = 24
    kept: int = 6
    reps: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        read_conducts(self.conducts)
        if HONEST in self.conducts:
            raise UsageError("honest is what a policy does otherwise; name what else it can do")
        if any(group.strategy == LINEAR for group in self.config.providers):
            raise UsageError(f"the market has a policy already, the group {LINEAR}; search another")
        if not 1 <= self.kept <= self.candidates:
            raise UsageError(f"of {self.candidates} candidates {self.kept} can't be the best")

    def name(self, weights: Weights, name: str = "learned") -> Newcomer:
        """Return newcomers that do what weights say."""
        parameters = {"conducts": ",".join(self.conducts), "weights": write_weights(weights)}
        return Newcomer(name, LINEAR, parameters)


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a search.

    Attributes:
        number: from 1.
        policy: what the policy of all rounds before gains beyond honesty, in ETH a job, in markets
            that none of them has seen.
        best: what the best candidate gains.
        kept: the mean gain of those that were kept.
        all: the mean gain of all.
        spread: the mean standard deviation of the weights from which the next round is drawn.
    """

    number: int
    policy: Estimate
    best: float
    kept: float
    all: float
    spread: float


@dataclass(frozen=True, slots=True)
class Scale:
    """The means and standard deviations of what agents see in a market."""

    mean: Weights
    deviation: Weights

    def turn(self, theta: Weights) -> Weights:
        """Return the weights of plain numbers from those of numbers in standard units."""
        is_alive = self.deviation > _TINY
        weights = np.where(is_alive, theta / np.where(is_alive, self.deviation, 1.0), 0.0)
        weights[:, -1] = theta[:, -1] - (weights[:, :-1] * self.mean[:-1]).sum(axis=1)
        return weights


@dataclass
class State:
    """The state of a search between two rounds, as plain values."""

    mean: list[list[float]]
    deviation: list[list[float]]
    scale_mean: list[float]
    scale_deviation: list[float]
    rounds: list[Round] = field(default_factory=list)

    @property
    def scale(self) -> Scale:
        """What agents see."""
        return Scale(np.array(self.scale_mean), np.array(self.scale_deviation))

    @property
    def weights(self) -> Weights:
        """The policy that was found."""
        return self.scale.turn(np.array(self.mean))


def begin(search: Search) -> State:
    """Return the state of a search before its first round: all weights may be anything."""
    scale = measure(search)
    shape = (len(search.conducts), len(TERMS))
    return State(
        np.zeros(shape).tolist(),
        np.ones(shape).tolist(),
        scale.mean.tolist(),
        scale.deviation.tolist(),
    )


def measure(search: Search) -> Scale:
    """Return what agents see in one market, while they do one thing or the other by chance.

    Raises:
        UsageError: they have no job.
    """
    rng = np.random.default_rng(search.seed)

    def draw(_: Observation) -> int:
        return -1 if rng.random() < _HONEST_SHARE else int(rng.integers(len(search.conducts)))

    seen = [expand(observation) for observation, _ in watch(search, draw)]
    if not seen:
        raise UsageError("newcomers get no job in this market; give it more `jobs`")
    table = np.array(seen)
    return Scale(table.mean(axis=0), table.std(axis=0))


def watch(
    search: Search, choose: Callable[[Observation], int]
) -> Iterator[tuple[Observation, int]]:
    """Yield what newcomers of one market see, and what they do: -1 for honest work.

    Args:
        search: the market, and how many join it.
        choose: returns the place of a conduct, from 0, or -1.
    """
    like = msgspec.structs.replace(
        search.config.providers[0], strategy=LEARNER, count=search.count, parameters={}
    )
    config = msgspec.structs.replace(
        search.config, seed=choose_seed(search, 0), providers=(*search.config.providers, like)
    )
    setting = make_setting(config, {LEARNER: (HONEST, *search.conducts)}, None)
    game = Game(setting.config, setting.conducts, make_outcomes(setting.config))
    question = game.begin()
    while question is not None:
        place = choose(question.observation)
        yield question.observation, place
        question = game.answer(place + 2)


def choose_seed(search: Search, number: int) -> int:
    """Return the seed of the markets of a round, which are not those of any comparison."""
    return spawn_seed(spawn_seed(search.seed, _TRAINING), number)


def go_on(
    search: Search, state: State, laboratory: Laboratory, tell: Callable[[Round], None]
) -> None:
    """Play the rounds that are left, and change the state after each.

    Args:
        search: what is looked for.
        state: where it stands.
        laboratory: where markets are played.
        tell: is told of each round when the state is that after it.

    Raises:
        TrialError: a run failed.
    """
    for number in range(len(state.rounds) + 1, search.rounds + 1):
        rng = np.random.default_rng((search.seed, number))
        mean, deviation = np.array(state.mean), np.array(state.deviation)
        drawn = mean + deviation * rng.standard_normal((search.candidates, *mean.shape))
        drawn[0] = mean
        policies = [state.scale.turn(each) for each in drawn]
        scores = score(search, laboratory, policies, choose_seed(search, number))
        gains = scores.mean(axis=1)
        order = np.argsort(-gains, kind="stable")[: search.kept]
        chosen = drawn[order]
        state.mean = chosen.mean(axis=0).tolist()
        spread = np.maximum(chosen.std(axis=0), FLOOR)
        state.deviation = spread.tolist()
        state.rounds.append(
            Round(
                number=number,
                policy=estimate_mean(scores[0]),
                best=float(gains.max()),
                kept=float(gains[order].mean()),
                all=float(gains.mean()),
                spread=float(spread.mean()),
            )
        )
        tell(state.rounds[-1])


def score(
    search: Search, laboratory: Laboratory, policies: Sequence[Weights], seed: int
) -> Weights:
    """Return the gain of each policy in each of the same markets, in ETH a job."""
    config = msgspec.structs.replace(search.config, seed=seed)
    contests = [admit(config, search.name(each), search.count) for each in policies]
    tried = try_pairs(laboratory, contests, search.reps)
    return np.array([[pair.gain_eth_per_job for pair in pairs] for pairs in tried])
