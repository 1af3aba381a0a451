"""Sensitivity: which keys of a market decide what it comes to, and how much chance does.

Sobol indices say which share of a measure's variance over a space is due to a key: alone (the first
order), and with all that it does together with others (the total). They are SALib's, by Saltelli's
and Jansen's estimators on a scrambled Sobol sequence. The seed is one more factor, `chance`: the
share that no key explains is measured, and not taken to be 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.analysis.meter import Meter
from moot.sim.estimates import CONFIDENCE, Estimate, Floats

CHANCE = "chance"
"""The factor that stands for the seed."""

SEEDS = 2**20
"""How many seeds there are to draw from."""

RESAMPLES = 1_000
"""Of SALib's bootstrap, from whose standard deviation an interval is made."""


@dataclass(frozen=True, slots=True)
class Index:
    """The indices of a factor.

    Attributes:
        key: of the configuration, or `chance`.
        first: the share of the variance that is due to it alone.
        total: that, and what it does together with others.
    """

    key: str
    first: Estimate
    total: Estimate


@dataclass(frozen=True, slots=True)
class Explained:
    """What decides a measure.

    Attributes:
        measure: its name.
        mean: over the space.
        deviation: its standard deviation over the space.
        indices: of each factor; empty if the measure is the same everywhere.
    """

    measure: str
    mean: float
    deviation: float
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What decides the measures of a space.

    Attributes:
        keys: that were varied, without `chance`.
        samples: of the sequence; each takes a market for each factor, and two more.
        resamples: of the bootstrap.
        markets: that the indices are computed from.
        played: runs that were played now, twins included.
        explained: one for each measure.
    """

    keys: tuple[str, ...]
    samples: int
    resamples: int
    markets: int
    played: int
    explained: tuple[Explained, ...]


def measure_sensitivity(
    meter: Meter, samples: int, resamples: int = RESAMPLES, seed: int = 0
) -> Sensitivity:
    """Return the Sobol indices of all keys of a space, and of chance.

    Args:
        meter: plays the markets.
        samples: of the sequence, a power of 2.
        resamples: of the bootstrap.
        seed: of the sequence and the bootstrap.

    Raises:
        UsageError: the number of samples is none that will do, or SALib is not installed.
        TrialError: a run failed.
    """
    names = (*meter.space.keys, CHANCE)
    check_samples(samples, resamples)
    meter.total = samples * (len(names) + 2) * meter.runs_each

    def evaluate(parts: Floats) -> Floats:
        asked = [
            (meter.space.pick(row[:-1].tolist()), 1 + min(int(row[-1] * SEEDS), SEEDS - 1))
            for row in parts
        ]
        return np.array([[it[name] for name in meter.names] for it in meter.measure(asked)])

    values, indices = explain(names, evaluate, samples, resamples, seed)
    explained = tuple(
        Explained(name, float(column.mean()), float(column.std()), own)
        for name, column, own in zip(meter.names, values.T, indices, strict=True)
    )
    keys = meter.space.keys
    return Sensitivity(keys, samples, resamples, len(values), meter.played, explained)


def check_samples(samples: int, resamples: int) -> None:
    """Refuse numbers with which there are no indices."""
    if samples < 8 or samples & (samples - 1) or samples > 2**16:
        raise UsageError(
            f"{samples} samples are no power of 2 from 8 to 65,536, in which the sequence is "
            "balanced; take 64 or 128"
        )
    if not 10 <= resamples <= 10**5:
        raise UsageError(f"{resamples} resamples: take 10 to 100,000")


def explain(
    names: Sequence[str],
    evaluate: Callable[[Floats], Floats],
    samples: int,
    resamples: int,
    seed: int,
) -> tuple[Floats, list[tuple[Index, ...]]]:
    """Return the values at all points of the sequence, and the indices of each measure.

    Args:
        names: of the factors.
        evaluate: returns the measures at points of the unit cube, a row for each.
        samples: of the sequence, a power of 2.
        resamples: of the bootstrap.
        seed: of both.

    Raises:
        UsageError: SALib is not installed.
    """
    sampling, analysing = _load("SALib.sample.sobol"), _load("SALib.analyze.sobol")
    problem = {"num_vars": len(names), "names": [*names], "bounds": [[0.0, 1.0]] * len(names)}
    parts = sampling.sample(problem, samples, calc_second_order=False, seed=seed)
    values = evaluate(parts)
    found: list[tuple[Index, ...]] = []
    for column in values.T:
        if np.ptp(column) == 0:
            found.append(())
            continue
        told = analysing.analyze(
            problem,
            column,
            calc_second_order=False,
            num_resamples=resamples,
            conf_level=CONFIDENCE,
            seed=seed,
        )
        found.append(
            tuple(
                Index(name, _take(told, "S1", place), _take(told, "ST", place))
                for place, name in enumerate(names)
            )
        )
    return values, found


def _take(told: Any, name: str, place: int) -> Estimate:
    """Return an index with the interval of the bootstrap."""
    value, margin = float(told[name][place]), float(told[f"{name}_conf"][place])
    return Estimate(value, value - margin, value + margin)


def _load(module: str) -> Any:
    from importlib import import_module  # noqa: PLC0415 - of this function alone

    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(
            "sensitivity needs SALib, which is not installed; install moot[sensitivity]"
        ) from error
