"""Measures of a market: numbers by which a designer compares markets, each with a name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.trials import GWEI, Trial
from moot.sim.analysis.twins import MEASURES as OF_TWINS
from moot.sim.analysis.twins import Pair
from moot.sim.estimates import Floats


class Measure(NamedTuple):
    """A measure: what it is in a few words, and how a run's is computed."""

    words: str
    compute: Callable[[Trial], float]


@dataclass(frozen=True, slots=True)
class _Share:
    """A count of `runs` as a share of all jobs."""

    name: str

    def __call__(self, trial: Trial) -> float:
        return _divide(float(trial.run[self.name]), trial)


@dataclass(frozen=True, slots=True)
class _Amount:
    """Columns of `runs` in gwei, as ETH a job."""

    names: tuple[str, ...]

    def __call__(self, trial: Trial) -> float:
        return _divide(sum(trial.run[name] for name in self.names) / GWEI, trial)


def _divide(total: float, trial: Trial) -> float:
    """Return a sum for each job; 0 where there are none."""
    jobs = trial.run["jobs"]
    return total / jobs if jobs else 0.0


def _sum_of_watchers(trial: Trial) -> float:
    """Return what watchers paid for checks, in ETH a job."""
    is_watcher = np.array([role == "watcher" for role in trial.roles], bool)
    return _divide(float(trial.work_eth[is_watcher].sum()), trial)


def _deterrence(trial: Trial) -> float:
    """Return what checks and locked capital cost, in ETH a job."""
    return _sum_of_watchers(trial) + _Amount(("capital_gwei",))(trial)


def _overhead(trial: Trial) -> float:
    return _deterrence(trial) + _Amount(("fees_gwei", "burned_gwei"))(trial)


def _average(values: Floats, percentile: float | None = None) -> float:
    if not len(values):
        return 0.0
    return float(values.mean() if percentile is None else np.percentile(values, percentile))


_GAINS = ("client_gwei", "honest_gwei", "cheat_gwei", "watcher_gwei")

MEASURES: Mapping[str, Measure] = {
    "wrong_share": Measure("share of jobs with a wrong answer accepted", _Share("wrong")),
    "right_share": Measure("share of jobs with a right answer", _Share("right")),
    "void_share": Measure("share of jobs without any answer accepted", _Share("void")),
    "unserved_share": Measure("share of jobs that nobody served", _Share("unserved")),
    "cheated_share": Measure("share of jobs that were cheated in", _Share("cheated")),
    "disputed_share": Measure("share of jobs that were disputed", _Share("disputed")),
    "spoiled_share": Measure("share of jobs whose outcome waiting has changed", _Share("spoiled")),
    "missed_clocks": Measure("clocks missed for waiting, a job", _Share("missed_clocks")),
    "missed_eth": Measure("what missed clocks cost, ETH a job", _Amount(("missed_gwei",))),
    "audit_asked": Measure("rate of audits asked for", lambda it: it.run["audit_rate_asked"]),
    "audit_made": Measure("rate of audits achieved", lambda it: it.run["audit_rate_achieved"]),
    "client_eth": Measure("what clients gain, ETH a job", _Amount(("client_gwei",))),
    "honest_eth": Measure("profit of honest providers, ETH a job", _Amount(("honest_gwei",))),
    "cheat_eth": Measure("profit of other providers, ETH a job", _Amount(("cheat_gwei",))),
    "watcher_eth": Measure("profit of watchers, ETH a job", _Amount(("watcher_gwei",))),
    "welfare_eth": Measure("what all of them gain, ETH a job", _Amount(_GAINS)),
    "fees_eth": Measure("gas, ETH a job", _Amount(("fees_gwei",))),
    "burned_eth": Measure("bonds burned, ETH a job", _Amount(("burned_gwei",))),
    "capital_eth": Measure("cost of locked capital, ETH a job", _Amount(("capital_gwei",))),
    "checking_eth": Measure("cost of checks, ETH a job", _sum_of_watchers),
    "deterrence_eth": Measure("checks and locked capital, ETH a job", _deterrence),
    "overhead_eth": Measure("checks, capital, gas and burned bonds, ETH a job", _overhead),
    "finality_blocks": Measure("blocks to finality", lambda it: _average(it.blocks)),
    "slow_blocks": Measure(
        "blocks to finality of 99 in 100 jobs", lambda it: _average(it.blocks, 99)
    ),
}
"""Measures of one market."""

GAINS: Mapping[str, str] = {
    name: OF_TWINS[name][0]
    for name in ("gain_eth", "gain_eth_per_job", "clients_loss_eth", "honesty_cost_eth")
}
"""Measures of a market beside its honest twin."""

WORDS: Mapping[str, str] = {
    **{name: it.words for name, it in MEASURES.items()},
    **GAINS,
}
"""All of them in words."""


def check_measures(names: Iterable[str]) -> None:
    """Refuse a measure that there is not."""
    for name in names:
        if name not in WORDS:
            raise UsageError.unknown("measure", name, WORDS, "measures")


def measure(played: Trial | Pair) -> dict[str, float]:
    """Return all measures of a market, or of one beside its honest twin."""
    trial = played.attack if isinstance(played, Pair) else played
    found = {name: float(it.compute(trial)) for name, it in MEASURES.items()}
    if isinstance(played, Pair):
        found |= {name: float(OF_TWINS[name][1](played)) for name in GAINS}
    return found
