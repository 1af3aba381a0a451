"""Comparison: what newcomers with a strategy bring beyond honesty, all with the same seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from moot.sim.analysis.trials import Laboratory
from moot.sim.analysis.twins import Contest, try_pairs
from moot.sim.economy.config import Config
from moot.sim.economy.strategies.base import HONEST
from moot.sim.economy.strategies.table import AGENTS
from moot.sim.estimates import Estimate, estimate_mean, share_confidence
from moot.sim.strategies import STRATEGIES

RATES = (0.1, 0.5, 1.0)
"""The shares of jobs in which cheats and tricks are tried."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A strategy of providers that join a market, its parameters, and what it is called."""

    name: str
    strategy: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
    """What newcomers of a strategy have, beside those that are honest with the same seeds.

    Attributes:
        name: what they are called.
        gain: in ETH for each job that they have as honest ones; the intervals of all that are
            compared are right together in 95 of 100 cases (Bonferroni).
        clients_loss: what clients lose by them, in ETH, likewise.
        gains: the gain of each repetition; number r has the same seed for all.
    """

    name: str
    gain: Estimate
    clients_loss: Estimate
    gains: tuple[float, ...]


def list_built_in(rates: Sequence[float] = RATES) -> list[Newcomer]:
    """Return every cheat and trick at every rate, and every strategy that chooses."""
    found = [
        Newcomer(f"{name} at {rate:g}", name, {"rate": rate})
        for name in STRATEGIES
        if name != HONEST
        for rate in rates
    ]
    return found + [Newcomer(name, name, {}) for name in AGENTS]


def admit(config: Config, newcomer: Newcomer, count: int) -> Contest:
    """Return a market with newcomers, and the same in which they are honest.

    They are like the providers of the first group, and come last. All jobs count, whoever learns.
    """
    like = msgspec.structs.replace(config.providers[0], count=count, parameters={})
    first = config.clients.count + sum(group.count for group in config.providers)

    def add(strategy: str, parameters: Mapping[str, Any]) -> Config:
        group = msgspec.structs.replace(like, strategy=strategy, parameters=dict(parameters))
        return msgspec.structs.replace(config, providers=(*config.providers, group), burn_in=0.0)

    return Contest(
        add(newcomer.strategy, newcomer.parameters),
        add(HONEST, {}),
        lambda _: tuple(range(first, first + count)),
    )


def compare(
    laboratory: Laboratory, config: Config, newcomers: Sequence[Newcomer], count: int, reps: int
) -> list[Standing]:
    """Return what newcomers of each strategy bring, the best first.

    Args:
        laboratory: where markets are played.
        config: the market that they join.
        newcomers: the strategies.
        count: how many of each join.
        reps: repetitions; repetition r has the same seed for all of them.

    Raises:
        TrialError: a run failed.
    """
    tried = try_pairs(laboratory, [admit(config, it, count) for it in newcomers], reps)
    confidence = share_confidence(len(newcomers))
    found = []
    for newcomer, pairs in zip(newcomers, tried, strict=True):
        gains = tuple(pair.gain_eth_per_job for pair in pairs)
        loss = estimate_mean([pair.clients_loss_eth for pair in pairs], confidence)
        found.append(Standing(newcomer.name, estimate_mean(gains, confidence), loss, gains))
    return sorted(found, key=lambda standing: -standing.gain.value)
