"""A linear policy: each lie has a score, and the highest is done, or honesty if none is above 0."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from moot.offchain.errors import UsageError
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.strategies.base import HONEST, PROVIDER_CONDUCTS, Strategy
from moot.sim.economy.streams import Stream
from moot.sim.learning.acting import read_conducts
from moot.sim.learning.observing import PLACES, Memory, Observation, observe

Weights = npt.NDArray[np.float64]

SEEN = (
    *("value", "price", "bond", "fee", "audit_rate", "gain", "work", "reputation"),
    *("slashed", "last_checked", "last_slashed", "checked", "caught"),
)
"""The numbers of an observation that it takes as they are."""

PRODUCTS = (("audit_rate", "bond"), ("audit_rate", "price"), ("audit_rate", "gain"))
"""Those of which it takes the product."""

TERMS = (*SEEN, *(" x ".join(pair) for pair in PRODUCTS), "1")
"""What each weight is multiplied with."""

_SEEN = np.array([PLACES[name] for name in SEEN])
_LEFT, _RIGHT = (np.array([PLACES[pair[side]] for pair in PRODUCTS]) for side in (0, 1))
_ONE = np.ones(1)


def expand(observation: Observation) -> Weights:
    """Return `TERMS` of an observation."""
    seen = observation.astype(np.float64)
    return np.concatenate((seen[_SEEN], seen[_LEFT] * seen[_RIGHT], _ONE))


def choose(weights: Weights, observation: Observation) -> int:
    """Return the place, from 0, of the conduct with the highest score; -1 if none is above 0."""
    scores = weights @ expand(observation)
    best = int(scores.argmax())
    return best if scores[best] > 0 else -1


def write_weights(weights: Weights) -> str:
    """Return weights as a parameter of the strategy: numbers with spaces between them."""
    return " ".join(f"{weight:.6g}" for weight in weights.ravel())


def read_weights(text: str, conducts: Sequence[str]) -> Weights:
    """Return weights, a row for each conduct; raises UsageError if they are none."""
    wanted = len(conducts) * len(TERMS)
    try:
        weights = np.array([float(word) for word in text.split()])
    except ValueError:
        weights = np.full(1, np.nan)
    if len(weights) != wanted or not np.isfinite(weights).all():
        raise UsageError(
            f"weights are {wanted} finite numbers with spaces between them, {len(TERMS)} for each "
            "conduct; `moot learn` finds them"
        )
    return weights.reshape(len(conducts), len(TERMS))


@dataclass
class Linear(Strategy):
    """The strategy of a linear policy, which sees what every agent sees.

    `conducts` are what it does instead of honest work, with commas between the names, and
    `weights` the numbers that `moot learn` has found. Without any it is honest.
    """

    conducts: str = "lazy"
    weights: str = ""
    _names: tuple[str, ...] = field(init=False, repr=False, default=())
    _rows: Weights | None = field(init=False, repr=False, default=None)
    _memory: Memory = field(init=False, repr=False, default_factory=Memory)

    def __post_init__(self) -> None:
        self._names = read_conducts(self.conducts, PROVIDER_CONDUCTS)
        if self.weights:
            self._rows = read_weights(self.weights, self._names)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Do what has the highest score."""
        del stream
        if self._rows is None:
            return HONEST
        place = choose(self._rows, observe(job, own, self._memory))
        return HONEST if place < 0 else self._names[place]

    def hear(self, news: News) -> bool:
        """Remember what became of a job."""
        self._memory.hear(news)
        return False
