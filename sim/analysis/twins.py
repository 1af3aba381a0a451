"""Honest twins: the same market with the same random numbers, in which nobody attacks."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.over_time import Course
from moot.sim.analysis.trials import Laboratory, Trial
from moot.sim.economy.config import Config, Group
from moot.sim.economy.spans import choose_share
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.estimates import Estimate, Floats, estimate_mean
from moot.sim.experiments.plan import spawn_seed


@dataclass(frozen=True, slots=True)
class Pair:
    """A run and its honest twin: the same agents with the same seeds.

    Attributes:
        attack: the run.
        twin: its twin, in which attackers do what is agreed.
        attackers: the numbers of the agents that attack in the one and are honest in the other.
    """

    attack: Trial
    twin: Trial
    attackers: tuple[int, ...]

    @property
    def profit_eth(self) -> float:
        """What the attackers earn."""
        return self._sum(self.attack)

    @property
    def honest_profit_eth(self) -> float:
        """What they earn as honest agents."""
        return self._sum(self.twin)

    @property
    def gain_eth(self) -> float:
        """What attacking brings the attackers beyond honesty."""
        return self.profit_eth - self.honest_profit_eth

    @property
    def gain_eth_per_job(self) -> float:
        """The gain for each job that they have as honest agents; 0 if they have none."""
        jobs = float(self.twin.jobs[list(self.attackers)].sum())
        return self.gain_eth / jobs if jobs else 0.0

    @property
    def span_gains(self) -> Floats:
        """The same in each span, burn-in included; NaN where they have no job."""
        chosen = list(self.attackers)
        gains = (self.attack.span_profits_eth - self.twin.span_profits_eth)[:, chosen].sum(axis=1)
        jobs = self.twin.span_jobs[:, chosen].sum(axis=1)
        found: Floats = np.divide(gains, jobs, out=np.full(len(jobs), np.nan), where=jobs > 0)
        return found

    @property
    def clients_loss_eth(self) -> float:
        """What clients lose because there are attackers, the value of answers included."""
        return self.twin.clients_eth - self.attack.clients_eth

    @property
    def honesty_cost_eth(self) -> float:
        """What all providers and watchers that stay honest earn less because of the attackers."""
        return self._sum_others(self.twin) - self._sum_others(self.attack)

    def _sum(self, trial: Trial) -> float:
        return float(trial.profits_eth[list(self.attackers)].sum())

    def _sum_others(self, trial: Trial) -> float:
        is_other = np.array([role != "client" for role in trial.roles])
        is_other[list(self.attackers)] = False
        return float(trial.profits_eth[is_other].sum())


@dataclass(frozen=True, slots=True)
class Contest:
    """A market, its honest twin, and how the attackers are found among the agents of the one."""

    attack: Config
    twin: Config
    find: Callable[[Trial], tuple[int, ...]]


def make_contest(config: Config, strategies: Collection[str]) -> Contest:
    """Return a market and its twin, in which all with these strategies do what is agreed.

    A provider becomes honest, a watcher checks whatever it is shown; number, capital, costs and
    slots stay. Two groups can be of one strategy then, which no file may say: agents keep their
    numbers, and with them their random numbers.
    """

    def convert(group: Group, strategy: str) -> Group:
        if group.strategy not in strategies:
            return group
        return msgspec.structs.replace(group, strategy=strategy, parameters={})

    def find(trial: Trial) -> tuple[int, ...]:
        return tuple(k for k, name in enumerate(trial.strategies) if name in strategies)

    twin = msgspec.structs.replace(
        config,
        providers=tuple(convert(group, HONEST) for group in config.providers),
        watchers=tuple(convert(group, WATCHER) for group in config.watchers),
    )
    return Contest(config, twin, find)


def list_attackers(config: Config) -> tuple[str, ...]:
    """Return the strategies of providers that are there, and not honest."""
    return tuple(
        group.strategy for group in config.providers if group.strategy != HONEST and group.count
    )


def choose_attackers(
    config: Config,
    strategy: str | None,
    *,
    name: str = "this market",
    otherwise: str = "add a group of attackers",
) -> tuple[str, ...]:
    """Return whose attack it is: a strategy's that is named, or that of all who are not honest.

    Args:
        config: the market.
        strategy: the one that is named; None for all.
        name: what the market is called where it has no attack.
        otherwise: what to do then.

    Raises:
        UsageError: the market has no such strategy, or all of its providers are honest.
    """
    if strategy is not None:
        check_strategy(config, strategy)
        return (strategy,)
    attackers = list_attackers(config)
    if not attackers:
        raise UsageError(
            f"all providers of {name} are honest; there is no attack to look at: {otherwise}"
        )
    return attackers


def check_strategy(config: Config, strategy: str) -> None:
    """Refuse a strategy that no agent of a market has, or that is honest itself."""
    there = [group.strategy for group in (*config.providers, *config.watchers) if group.count]
    known = [name for name in there if name not in (HONEST, WATCHER)]
    if strategy not in known:
        raise UsageError.unknown("attacker in this market:", strategy, known, "attackers")


def try_pairs(laboratory: Laboratory, contests: Sequence[Contest], reps: int) -> list[list[Pair]]:
    """Play markets and their honest twins; what several have in common is played once.

    Args:
        laboratory: where they are played.
        contests: the markets.
        reps: how often each is repeated; repetition r has the same seed in all of them. A twin
            has its market's burn-in, whether or not somebody learns in it.

    Returns:
        For each market its pairs, by repetition.

    Raises:
        TrialError: a run failed.
    """
    repeated = [(contest, rep) for contest in contests for rep in range(reps)]
    configs = [
        msgspec.structs.replace(config, seed=spawn_seed(config.seed, rep), burn_in=share)
        for contest, rep in repeated
        for share in [choose_share(contest.attack)]
        for config in (contest.attack, contest.twin)
    ]
    names = [msgspec.json.encode(config) for config in configs]
    distinct = dict(zip(names, configs, strict=True))
    found = dict(zip(distinct, laboratory.try_all(tuple(distinct.values())), strict=True))
    trials = [found[name] for name in names]
    pairs = [
        Pair(attack, twin, contest.find(attack))
        for (contest, _), attack, twin in zip(repeated, trials[::2], trials[1::2], strict=True)
    ]
    return [pairs[start : start + reps] for start in range(0, len(pairs), reps)]


def follow(pairs: Sequence[Pair]) -> Course:
    """Return what becomes of a market with attackers, and of their gain, over time."""
    trials = [pair.attack for pair in pairs]
    series = {name: np.array([each.shares[name] for each in trials]) for name in trials[0].shares}
    series["gain"] = np.array([pair.span_gains for pair in pairs])
    return Course(trials[0].all_jobs, trials[0].burn_in, series)


MEASURES: dict[str, tuple[str, Callable[[Pair], float]]] = {
    "profit_eth": ("attackers' profit, ETH", lambda pair: pair.profit_eth),
    "honest_profit_eth": ("the same agents' when honest, ETH", lambda p: p.honest_profit_eth),
    "gain_eth": ("gain by attacking, ETH", lambda pair: pair.gain_eth),
    "gain_eth_per_job": ("gain by attacking, ETH a job", lambda pair: pair.gain_eth_per_job),
    "clients_loss_eth": ("clients' loss, ETH", lambda pair: pair.clients_loss_eth),
    "honesty_cost_eth": ("cost of staying honest, ETH", lambda pair: pair.honesty_cost_eth),
    "finality_blocks": ("time to finality, blocks", lambda p: _mean(p.attack)),
    "honest_finality_blocks": ("… of the twin", lambda p: _mean(p.twin)),
    "slow_finality_blocks": ("time to finality of 99 in 100 jobs", lambda p: _slow(p.attack)),
    "honest_slow_finality_blocks": ("… of the twin", lambda p: _slow(p.twin)),
    "locked_eth_blocks": ("capital locked, ETH x blocks a job", lambda p: _lock(p.attack)),
    "honest_locked_eth_blocks": ("… of the twin", lambda p: _lock(p.twin)),
    "burned_share": ("share of bonds burned", lambda p: _burn(p.attack)),
    "honest_burned_share": ("… of the twin", lambda p: _burn(p.twin)),
    "audit_rate_asked": ("rate of audits asked for", lambda p: p.attack.run["audit_rate_asked"]),
    "audit_rate_achieved": ("… achieved", lambda p: p.attack.run["audit_rate_achieved"]),
}
"""What an attack is measured by beside its twin: a name for people, and how it is computed."""


def compare_twins(pairs: Sequence[Pair]) -> dict[str, Estimate]:
    """Return all of `MEASURES`, as means over repetitions."""
    return {
        name: estimate_mean([compute(pair) for pair in pairs])
        for name, (_, compute) in MEASURES.items()
    }


def _mean(trial: Trial) -> float:
    return float(trial.blocks.mean()) if len(trial.blocks) else 0.0


def _slow(trial: Trial) -> float:
    return float(np.percentile(trial.blocks, 99)) if len(trial.blocks) else 0.0


def _lock(trial: Trial) -> float:
    return trial.locked_eth_blocks / len(trial.blocks) if len(trial.blocks) else 0.0


def _burn(trial: Trial) -> float:
    return trial.burned_eth / trial.bonds_eth if trial.bonds_eth else 0.0
