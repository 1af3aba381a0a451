"""The fraud game between a provider and a client, as in the Hellas protocol, and its equilibrium.

The provider works honestly at a cost c_H or fakes the work at c_F; the client audits at a cost
C_safe or does not. The provider is paid P, unless it is audited and has cheated: then it loses its
stake S instead, and the client gets a reward Delta. An undetected cheat costs the client L.
Each side is indifferent, and neither can do better, where

    audit rate    v* = (c_H - c_F) / (P + S)
    cheating rate q* = C_safe / (L + Delta)

The audit rate is what keeps the provider honest, so it is made of the provider's costs; the
cheating rate is made of the client's. Delta contains a part of S, so that both fall with a stake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from moot.offchain.errors import UsageError
from moot.sim.estimates import Estimate, estimate_mean

Rates = NDArray[np.float64]

STRENGTH = 0.5
"""How fast a population changes: the change of log(rate / (1 - rate)) in a step in which a side
would win or lose all that is at stake."""
STEPS = 4_000
POPULATIONS = 64


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """The rates from which neither side gains by departing.

    Attributes:
        audit_rate: v*, the share of jobs that are audited.
        cheating_rate: q*, the share of jobs in which the work is faked.
    """

    audit_rate: float
    cheating_rate: float


@dataclass(frozen=True, slots=True)
class FraudGame:
    """The money of a fraud game, all in one unit.

    Attributes:
        honest_cost: c_H, of honest work.
        faked_cost: c_F, of faked work.
        payment: P, for a job.
        stake: S, which a cheat that is audited loses.
        audit_cost: C_safe.
        loss: L, the client's from a cheat that it does not detect.
        reward: Delta, the client's for a cheat that it detects, net.

    Raises:
        UsageError: an audit is free, or nothing is at stake for one of the sides.
    """

    honest_cost: float
    faked_cost: float
    payment: float
    stake: float
    audit_cost: float
    loss: float
    reward: float

    def __post_init__(self) -> None:
        if self.payment + self.stake <= 0 or self.loss + self.reward <= 0:
            raise UsageError("a fraud game needs P + S and L + Delta above 0: raise stake or loss")
        if self.audit_cost <= 0:
            raise UsageError("an audit that costs nothing is made always; give it a cost above 0")

    @property
    def saving(self) -> float:
        """What faking saves: c_H - c_F."""
        return self.honest_cost - self.faked_cost

    def calculate_cheats_gain(self, audit_rate: Rates) -> Rates:
        """Return what a cheat gains over honest work, given the audit rate; of any shape."""
        return self.saving - audit_rate * (self.payment + self.stake)

    def calculate_audits_gain(self, cheating_rate: Rates) -> Rates:
        """Return what an audit gains over none, given the cheating rate; of any shape."""
        return cheating_rate * (self.loss + self.reward) - self.audit_cost


PUBLISHED = FraudGame(
    honest_cost=5, faked_cost=0.5, payment=50, stake=100, audit_cost=8, loss=50, reward=91.75
)
"""The baseline of the published simulator; it says v* = 0.0300, q* = 0.0564."""
_DISPUTE_COST = 3
_DISPUTE_BOND = 5
_WIN_RATE = 0.95
PUBLISHED_REWARDS: Mapping[float, float] = MappingProxyType(
    {0.5: 44.5, 0.6: 55.1, 0.7: 65.7, 0.8: 76.3, 0.9: 86.9, 0.95: 91.75, 1.0: 97.0}
)
"""Delta by the probability that a justified dispute is won, as the published report has it."""


def solve_fraud_game(
    c_h: float, c_f: float, payment: float, stake: float, c_safe: float, loss: float, reward: float
) -> Equilibrium:
    """Return the equilibrium, given c_H, c_F, P, S, C_safe, L and Delta, all in one unit.

    Where faking saves nothing, nobody cheats and nobody audits. Where an audit costs more than a
    detected cheat is worth, nobody audits and everybody cheats. Where faking saves more than is at
    stake, everybody cheats although everybody is audited.

    Raises:
        UsageError: an audit is free, or nothing is at stake for one of the sides.
    """
    game = FraudGame(c_h, c_f, payment, stake, c_safe, loss, reward)
    if game.saving <= 0:
        return Equilibrium(audit_rate=0, cheating_rate=0)
    if c_safe >= loss + reward:
        return Equilibrium(audit_rate=0, cheating_rate=1)
    if game.saving >= payment + stake:
        return Equilibrium(audit_rate=1, cheating_rate=1)
    return Equilibrium(
        audit_rate=game.saving / (payment + stake), cheating_rate=c_safe / (loss + reward)
    )


def set_stake(stake: float) -> FraudGame:
    """Return the published baseline with another stake, and with the reward that follows from it.

    Who wins a dispute gets half of the stake, so that a larger stake makes both audits and cheats
    rarer.
    """
    return replace(PUBLISHED, stake=stake, reward=calculate_reward(_WIN_RATE, stake))


def calculate_reward(win_rate: float, stake: float = PUBLISHED.stake) -> float:
    """Return Delta in the published baseline, by the probability that a justified dispute is won.

    Delta = p (S / 2 + P) - c - (1 - p) B, with the stake S, the cost c of a dispute and its bond B.
    """
    prize = stake / 2 + PUBLISHED.payment
    return win_rate * prize - _DISPUTE_COST - (1 - win_rate) * _DISPUTE_BOND


def simulate(
    game: FraudGame, seed: int, steps: int = STEPS, populations: int = POPULATIONS
) -> tuple[Estimate, Estimate]:
    """Return the audit rate and the cheating rate of populations that imitate success.

    Each population has its own start, and follows the replicator dynamics: what pays better than
    its alternative becomes more frequent. Its rates circle around the equilibrium, and their means
    over time tend to it (a property of games of two by two actions). In each step of the second
    half it plays one job, whose audit and cheat are drawn with the rates of that moment.

    Args:
        game: the money.
        seed: source of starts and draws.
        steps: how many, of which the first half is not counted.
        populations: how many independent ones.

    Returns:
        The intervals of the shares of jobs that were audited, and that were cheated in.

    Raises:
        UsageError: there are no populations, or too few steps.
    """
    if steps < 2:
        raise UsageError(f"{steps} steps leave none to count; take 2 or more")
    rng = np.random.default_rng(seed)
    cheating, auditing = rng.normal(-3, 1, (2, populations))
    counts = np.zeros((2, populations))
    stakes = (game.payment + game.stake, game.loss + game.reward)
    for step in range(steps):
        audit_rate = _squash(auditing)
        cheating += STRENGTH / stakes[0] * game.calculate_cheats_gain(audit_rate)
        cheating_rate = _squash(cheating)
        auditing += STRENGTH / stakes[1] * game.calculate_audits_gain(cheating_rate)
        if step >= steps // 2:
            counts += rng.random((2, populations)) < (audit_rate, cheating_rate)
    shares = counts / (steps - steps // 2)
    return estimate_mean(shares[0]), estimate_mean(shares[1])


def _squash(logits: Rates) -> Rates:
    """Return the rates of log(rate / (1 - rate))."""
    rates: Rates = 1 / (1 + np.exp(-logits))
    return rates
