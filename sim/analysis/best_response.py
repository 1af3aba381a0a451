"""Best response: what a provider that may do anything would do in a market, and what it brings."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.analysis.over_time import Course
from moot.sim.analysis.trials import Laboratory
from moot.sim.analysis.twins import Contest, follow, try_pairs
from moot.sim.economy.config import Config, Group
from moot.sim.economy.strategies.base import HONEST
from moot.sim.estimates import Estimate, estimate_mean, share_confidence
from moot.sim.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class Response:
    """A conduct at a rate, and what it brings beyond honesty.

    Attributes:
        conduct: its name.
        rate: the share of jobs in which it is chosen.
        gain: in ETH for each job.
        course: the market with it, over time.
    """

    conduct: str
    rate: float
    gain: Estimate
    course: Course


def list_conducts() -> tuple[str, ...]:
    """Return all conducts that are not honest."""
    return tuple(name for name in STRATEGIES if name != HONEST)


def find_best_responses(
    laboratory: Laboratory,
    config: Config,
    conducts: Sequence[str],
    rates: Sequence[float],
    reps: int,
) -> list[Response]:
    """Return what each conduct at each rate brings to one provider that joins a market.

    The provider is like those of the first group, and comes last. All others do what is
    configured. Its honest twin is the same provider, being honest, with the same random numbers.

    Args:
        laboratory: where markets are played.
        config: the market.
        conducts: names of `sim/strategies.py`.
        rates: in which shares of its jobs it behaves so.
        reps: repetitions of each.

    Returns:
        The best first. Honesty brings 0 and is not among them. All intervals together are right
        in 95 of 100 cases (Bonferroni), so that the best of many is not best by chance.

    Raises:
        UsageError: there is no such conduct, or a rate is none.
        TrialError: a run failed.
    """
    for conduct in conducts:
        if conduct not in list_conducts():
            raise UsageError.unknown("conduct", conduct, list_conducts())
    for rate in rates:
        if not 0 < rate <= 1:
            raise UsageError(f"--rate {rate} is no share of jobs; choose more than 0, and up to 1")
    grid = [(conduct, rate) for conduct in conducts for rate in rates]
    contests = [_admit(config, conduct, rate) for conduct, rate in grid]
    tried = try_pairs(laboratory, contests, reps)
    confidence = share_confidence(len(grid))
    found = []
    for (conduct, rate), pairs in zip(grid, tried, strict=True):
        gain = estimate_mean([it.gain_eth_per_job for it in pairs], confidence)
        found.append(Response(conduct, rate, gain, follow(pairs)))
    return sorted(found, key=lambda response: -response.gain.value)


def _admit(config: Config, conduct: str, rate: float) -> Contest:
    """Return a market with one provider more, and the same with that provider being honest."""
    like = config.providers[0]
    honest = msgspec.structs.replace(like, strategy=HONEST, count=1, parameters={})
    cheat = msgspec.structs.replace(honest, strategy=conduct, parameters={"rate": rate})
    number = config.clients.count + sum(group.count for group in config.providers)

    def add(newcomer: Group) -> Config:
        return msgspec.structs.replace(config, providers=(*config.providers, newcomer))

    return Contest(add(cheat), add(honest), lambda _: (number,))
