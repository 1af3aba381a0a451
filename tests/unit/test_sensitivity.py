"""Sensitivity: indices are those of functions that have closed ones, and chance is a factor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from moot.offchain.errors import UsageError
from moot.sim.analysis.meter import Asked
from moot.sim.analysis.sensitivity import (
    CHANCE,
    Index,
    Sensitivity,
    check_samples,
    explain,
    measure_sensitivity,
)
from moot.sim.analysis.space import Point, Space, make_dimensions, make_space
from moot.sim.economy.config import parse_config
from moot.sim.estimates import Floats
from moot.sim.report.answers import make_sensitivity_page

MARKET = parse_config({"jobs": 50}, "test")
A, B = 7.0, 0.1
FIRST, TOTAL = (0.3139, 0.4424, 0.0), (0.5576, 0.4424, 0.2437)
"""The indices of the function of Ishigami and Homma (1990) with a = 7, b = 0.1, by its variances
V1 = (1 + b pi^4 / 5)^2 / 2, V2 = a^2 / 8, V13 = 8 b^2 pi^8 / 225."""


def ishigami(parts: Floats) -> Floats:
    """Return the function at points of the unit cube, which stands for -pi to pi."""
    x = (parts * 2 - 1) * np.pi
    wave = np.sin(x[:, 0]) + A * np.sin(x[:, 1]) ** 2 + B * x[:, 2] ** 4 * np.sin(x[:, 0])
    return wave[:, None]


def explain_ishigami(evaluate: Callable[[Floats], Floats] = ishigami) -> tuple[Index, ...]:
    """Return the indices of the function, as we call SALib."""
    _, (indices,) = explain(("x1", "x2", "x3"), evaluate, 2048, 200, 3)
    return indices


def test_the_published_indices_come_out() -> None:
    """All six indices of Ishigami's function are within 0.03, and nearly all in their intervals."""
    indices = explain_ishigami()
    hits = 0
    for index, first, total in zip(indices, FIRST, TOTAL, strict=True):
        assert index.first.value == pytest.approx(first, abs=0.03)
        assert index.total.value == pytest.approx(total, abs=0.03)
        hits += index.first.contains(first) + index.total.contains(total)
    assert hits >= 5


def test_factors_that_change_places_are_seen() -> None:
    """With its first two factors exchanged the function has other indices: the order is ours."""
    indices = explain_ishigami(lambda parts: ishigami(parts[:, [1, 0, 2]]))
    assert indices[0].total.value == pytest.approx(TOTAL[1], abs=0.03)
    assert indices[1].total.value == pytest.approx(TOTAL[0], abs=0.03)


@dataclass
class Formula:
    """A meter of a formula of a point and of a repetition's number."""

    space: Space
    compute: Callable[[Point, int], Mapping[str, float]]
    runs_each: int = 1
    total: int = 0
    played: int = 0

    @property
    def names(self) -> list[str]:
        """The measures."""
        return list(self.compute(self.space.pick([0.5] * len(self.space.keys)), 1))

    def measure(self, asked: Sequence[Asked]) -> list[Mapping[str, float]]:
        """Return the formula."""
        self.played += len(asked)
        return [self.compute(*one) for one in asked]


def measure(compute: Callable[[Point, int], Mapping[str, float]], samples: int) -> Sensitivity:
    """Return what decides a formula of two keys and the seed."""
    ranges = {"bond.eth": (0.0, 1.0), "audit.rate": (0.0, 1.0)}
    meter = Formula(make_space(MARKET, make_dimensions(ranges)), compute)
    return measure_sensitivity(meter, samples, 100, 1)  # type: ignore[arg-type] # it is as good


def test_chance_has_the_share_that_no_key_explains() -> None:
    """Of two like parts, one a key's and one by chance, each is half of the variance."""

    def compute(point: Point, rep: int) -> Mapping[str, float]:
        drawn = float(np.random.default_rng(rep).random())
        return {"sum": float(point[0]) + drawn, "key": float(point[0])}

    found = measure(compute, 256)
    assert found.keys == ("bond.eth", "audit.rate")
    assert found.markets == 256 * 5
    both, alone = (
        {index.key: index.total.value for index in one.indices} for one in found.explained
    )
    assert both == pytest.approx({"bond.eth": 0.5, "audit.rate": 0, CHANCE: 0.5}, abs=0.1)
    assert alone == pytest.approx({"bond.eth": 1.0, "audit.rate": 0, CHANCE: 0}, abs=0.05)
    assert found.explained[0].mean == pytest.approx(1.0, abs=0.05)
    assert found.explained[0].deviation == pytest.approx(np.sqrt(1 / 6), abs=0.03)


def test_what_nothing_decides_has_no_indices() -> None:
    """A measure that is the same everywhere has none, instead of one that is no number."""
    found = measure(lambda point, _: {"same": 2.0, "other": float(point[1])}, 16)
    assert found.explained[0].indices == ()
    assert len(found.explained[1].indices) == 3
    page = make_sensitivity_page(found_with_words(found), "market")
    assert "nothing decides it" in page


def found_with_words(found: Sensitivity) -> Sensitivity:
    """Return the same about measures that markets have."""
    names = ("wrong_share", "client_eth")
    explained = tuple(
        replace(one, measure=name) for one, name in zip(found.explained, names, strict=True)
    )
    return replace(found, explained=explained)


@pytest.mark.parametrize(
    ("samples", "resamples"), [(0, 100), (4, 100), (48, 100), (2**20, 100), (64, 1), (64, 10**9)]
)
def test_samples_that_are_out_of_balance_are_refused(samples: int, resamples: int) -> None:
    """The samples are a power of 2, and the resamples enough for an interval."""
    with pytest.raises(UsageError, match="take"):
        check_samples(samples, resamples)
