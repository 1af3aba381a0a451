"""A search for a design: closed forms are found, chance is not taken for skill, and what binds."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.offchain.errors import UsageError
from moot.sim.analysis.design import Design, find_design
from moot.sim.analysis.goals import Goal, Limit
from moot.sim.analysis.meter import Asked, Meter
from moot.sim.analysis.searching import count_members, search
from moot.sim.analysis.space import Point, Space, make_dimensions, make_space
from moot.sim.analysis.trials import Laboratory
from moot.sim.economy.config import BLOCKS_A_YEAR, Config, parse_config
from moot.sim.economy.market import Market
from moot.sim.economy.reporting import Counts, Sink
from moot.sim.estimates import Floats
from moot.sim.experiments.engines import Here
from moot.sim.experiments.parts import Progress, ignore
from moot.sim.report.answers import make_design_page
from moot.sim.theory.capital import Deterrence, calculate_carry, solve_bond
from tests.economy_helpers import FixedOutcomes, make_group

WORK, PRICE, RATE, BLOCKS = 0.02, 0.08, 30.0, 115
GAME = Deterrence(WORK, PRICE, WORK, calculate_carry(RATE, BLOCKS, BLOCKS_A_YEAR))
MARKET = parse_config({"jobs": 50}, "test")
RANGES = {"bond.eth": (0.05, 3.0), "audit.rate": (0.0, 0.3)}
COST, GAIN = "deterrence_eth", "gain_eth_per_job"


@dataclass
class Formula:
    """A meter of a formula, to which each repetition adds what it draws.

    Attributes:
        space: the keys.
        compute: returns the measures at a point.
        noise: standard deviation of what a repetition adds to each measure, by its name.
    """

    space: Space
    compute: Callable[[Point], Mapping[str, float]]
    noise: Mapping[str, float] = field(default_factory=dict)
    runs_each: int = 1
    total: int = 0
    played: int = 0

    @property
    def names(self) -> list[str]:
        """The measures."""
        return list(self.compute(self.space.pick([0.5] * len(self.space.keys))))

    def measure(self, asked: Sequence[Asked]) -> list[Mapping[str, float]]:
        """Return the formula, and what the repetition and the point draw."""
        self.played += len(asked)
        return [self._draw(*one) for one in asked]

    def _draw(self, point: Point, rep: int) -> Mapping[str, float]:
        values = self.compute(point or self.space.pick([0.5] * len(self.space.keys)))
        words = [rep, *(zlib.crc32(repr(it).encode()) for it in point)]
        rng = np.random.default_rng(words)
        return {name: it + rng.normal(0, self.noise.get(name, 0)) for name, it in values.items()}


def deter(point: Point) -> dict[str, float]:
    """Return what deterrence costs with a bond and a rate of audits, and what a lie brings."""
    bond, rate = (float(it) for it in point)
    cost = WORK * rate + GAME.carry * bond
    return {COST: cost, GAIN: WORK - rate * (PRICE + bond)}


def find(meter: Any, *, limits: Sequence[Limit], trials: int = 320, **numbers: int) -> Design:
    """Search for the cheapest design."""
    told = {"reps": 1, "fresh": 2, "seed": 1} | numbers
    return find_design(meter, Goal(COST), limits, trials, **told)


def test_the_cheapest_bond_is_the_closed_forms() -> None:
    """Under the limit that lies do not pay, the bond and the rate are those of the closed form."""
    space = make_space(MARKET, make_dimensions(RANGES))
    found = find(Formula(space, deter), limits=[Limit(GAIN, "<=", 0.0)])
    best = solve_bond(GAME)
    assert found.best is not None
    bond, rate = (float(it) for it in found.best.point)
    assert bond == pytest.approx(best, rel=0.25)
    assert rate == pytest.approx(GAME.calculate_rate(bond), rel=0.05)
    cost = found.best.found[COST].value
    assert GAME.calculate_cost(best) <= cost <= 1.02 * GAME.calculate_cost(best)
    assert found.best.verdicts == ("met",)


def test_without_the_limit_nothing_is_audited() -> None:
    """The same search without its limit comes to no audits and the least bond: the limit counts."""
    space = make_space(MARKET, make_dimensions(RANGES))
    found = find(Formula(space, deter), limits=[])
    assert found.best is not None
    assert found.best.found[COST].value < 0.1 * GAME.calculate_cost(solve_bond(GAME))
    assert found.best.found[GAIN].value > 0


def test_the_seed_decides_what_is_tried() -> None:
    """The same seed tries the same designs, another one others; no more than was allowed."""
    space = make_space(MARKET, make_dimensions(RANGES))
    limits = [Limit(GAIN, "<=", 0.0)]
    one, same, other = (
        find(Formula(space, deter), limits=limits, trials=64, seed=seed) for seed in (1, 1, 2)
    )
    assert one.tried == same.tried != other.tried
    assert 0 < len(one.tried) <= 64


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ([Limit(COST, "<=", -1.0)], f"meets {COST} <= -1: the nearest is"),
        (
            [Limit(GAIN, "<=", -9.0), Limit(COST, "<=", 1.0)],
            f"meets {GAIN} <= -9",
        ),
        (
            [Limit(GAIN, "<=", -0.1), Limit(COST, "<=", 0.002)],
            "each limit is met by some of",
        ),
    ],
)
def test_limits_that_cannot_be_met_are_named(limits: list[Limit], says: str) -> None:
    """A search without an answer has no best design, and says in one line which limits bind."""
    space = make_space(MARKET, make_dimensions(RANGES))
    found = find(Formula(space, deter), limits=limits, trials=64)
    assert found.best is None
    assert found.finalists == ()
    assert says in found.binding
    assert "\n" not in found.binding
    assert "bond.eth" in found.binding


def test_the_best_of_many_is_not_better_by_chance() -> None:
    """Where no key does anything the search's best seems better, and its interval knows better."""
    space = make_space(MARKET, make_dimensions({"bond.eth": (0.1, 2.0)}))
    missed, flattered, searches = 0, 0, 40
    for seed in range(searches):
        meter = Formula(space, lambda _: {COST: 1.0}, {COST: 0.1 + seed * 1e-6})
        found = find(meter, limits=[], trials=32, reps=2, fresh=10, seed=seed)
        assert found.best is not None
        missed += not found.best.found[COST].contains(1.0)
        searched = found.best.searched
        assert searched is not None
        flattered += searched < 0.95
    assert missed <= 0.1 * searches
    assert flattered > 0.8 * searches


def test_a_limit_at_the_best_design_holds_with_other_seeds() -> None:
    """With noise in the limit's measure a design keeps a margin, and fresh seeds confirm it."""
    space = make_space(MARKET, make_dimensions(RANGES))
    limits, held = [Limit(GAIN, "<=", 0.0)], 0
    for seed in range(10):
        meter = Formula(space, deter, {GAIN: 0.003})
        found = find(meter, limits=limits, trials=96, reps=4, fresh=20, seed=seed)
        held += found.best is not None
        if found.best is not None:
            assert found.best.found[COST].value < 1.6 * GAME.calculate_cost(solve_bond(GAME))
    assert held >= 8


def test_choices_and_whole_numbers_are_searched() -> None:
    """The best of names and of whole numbers is found, though neither has a slope."""
    ranges = {"bond.name": ["constant", "proportional"], "providers.lazy.count": (0, 8)}

    def compute(point: Point) -> dict[str, float]:
        return {COST: (point[0] == "constant") + abs(int(point[1]) - 5)}

    found = find(Formula(make_space(MARKET, make_dimensions(ranges)), compute), limits=[])
    assert found.best is not None
    assert found.best.point == ("proportional", 5)
    assert len(found.tried) <= 18


def test_a_page_shows_finalists_and_what_binds() -> None:
    """The page has the best design, or the sentence about limits; names are text in it."""
    space = make_space(MARKET, make_dimensions(RANGES))
    found = find(Formula(space, deter), limits=[Limit(GAIN, "<=", 0.0)], trials=32)
    page = make_design_page(found, "<b>market</b>")
    assert "as configured" in page
    assert "&lt;b&gt;market" in page
    assert "deterrence_eth against audit.rate" in page
    lost = find(Formula(space, deter), limits=[Limit(COST, "<=", -1.0)], trials=32)
    assert f"meets {COST} &lt;= -1" in make_design_page(lost, "market")


@pytest.mark.parametrize(
    "numbers", [{"trials": 0}, {"reps": 0}, {"fresh": 1}, {"reps": 10_000}, {"trials": 10**6}]
)
def test_numbers_with_which_nothing_is_found_are_refused(numbers: dict[str, int]) -> None:
    """No trials, no repetition, and one fresh seed, of which there is no interval."""
    space = make_space(MARKET, make_dimensions(RANGES))
    with pytest.raises(UsageError, match="take 1"):
        find(Formula(space, deter), limits=[], **numbers)


def test_a_generation_is_asked_for_as_a_whole() -> None:
    """The search asks for whole generations, so that as many markets are played side by side."""
    asked: list[int] = []

    def evaluate(points: Floats) -> Floats:
        asked.append(len(points))
        return np.c_[(points**2).sum(axis=1), points[:, 0] - 0.5]

    search(evaluate, 2, 1, 64, 1)
    members = count_members(2)
    assert asked[0] == members
    assert max(asked) == members
    assert 3 <= asked.count(members) <= 2 * 64 // members + 1


def play_fixed(config: Config, sink: Sink, run: int, progress: Progress) -> Counts:
    """Play a market whose disputes take no gas to speak of, and always as long."""
    del progress
    return Market(config, FixedOutcomes(), sink, run).play()


@pytest.mark.slow
def test_a_market_comes_to_its_closed_form(tmp_path: Path) -> None:
    """In markets that are really played the cheapest deterrence costs what the closed form says."""
    providers = [make_group("honest", count=4), make_group("lazy", count=4, capital_eth=1e5)]
    market = parse_config(
        {
            "jobs": 3000,
            "providers": providers,
            "watchers": [make_group("watcher", count=2)],
            "capital": {"rate": RATE},
            "chain": {"volatility": 0.0, "base_fee_gwei": 0.001, "tip_gwei": 0.0},
            "clients": {"jobs_per_block": 2.0},
        },
        "test",
    )
    space = make_space(market, make_dimensions({"bond.eth": (0.1, 2), "audit.rate": (0.0, 0.12)}))
    with Here().open() as player:
        laboratory = Laboratory(player, play_fixed, tmp_path, ignore)
        meter = Meter(laboratory, space, (COST, GAIN))
        limits = [Limit(GAIN, "<=", 0.0)]
        found = find(meter, limits=limits, trials=96, reps=4, fresh=12)
    assert found.best is not None
    bond, rate = (float(it) for it in found.best.point)
    least = GAME.calculate_cost(solve_bond(GAME))
    assert found.best.found[COST].value == pytest.approx(least, rel=0.3)
    assert 0.3 * solve_bond(GAME) < bond < 3 * solve_bond(GAME)
    assert 0.9 * GAME.calculate_rate(bond) < rate < 2 * GAME.calculate_rate(bond)
