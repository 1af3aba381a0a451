"""Drawn markets with spikes: what jobs come to when calls wait is what the contract makes of it."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from moot.sim.economy.config import Config
from moot.sim.economy.reporting import Counts
from moot.sim.economy.schema import STAGES
from moot.sim.economy.simulate import simulate
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.strategies import STRATEGIES
from tests.economy_helpers import GAS_TOLERANCE, Kept, make_config, make_group, sum_gas

DISPUTES = 500
"""How many disputes must agree in all; in a quarter of them and more, calls have waited."""

LIARS = sorted({*STRATEGIES, *AGENTS} - {"honest"})


def draw_market(seed: int, jobs: int = 40) -> Config:
    """Return a market of drawn strategies on a chain whose spikes calls have to wait for."""
    rng = np.random.default_rng([45, seed])
    names = rng.choice(LIARS, size=int(rng.integers(3, 7)), replace=False)
    liars = [make_group(str(name), count=int(rng.integers(1, 4))) for name in names]
    every = int(rng.integers(60, 160))
    return make_config(
        seed=seed,
        jobs=jobs,
        fidelity="mixed",
        sample=1.0,
        cases=int(rng.integers(1, 5)),
        seats=int(rng.integers(1, 4)),
        providers=[*liars, make_group("honest", count=int(rng.integers(2, 8)))],
        watchers=[make_group(str(name)) for name in {"watcher": 0, rng.choice(list(WATCHERS)): 0}],
        audit={"name": "constant", "rate": float(rng.uniform(0.2, 0.9))},
        bond={"name": "constant", "eth": float(rng.uniform(0.2, 2))},
        pricing={"name": "posted", "eth": 0.1},
        chain={
            "base_fee_gwei": float(rng.uniform(1, 60)),
            "volatility": float(rng.uniform(0, 0.5)),
            "spike_factor": float(rng.uniform(5, 30)),
            "spike_every": every,
            "spike_blocks": int(rng.integers(15, every * 2 // 3)),
            "fee_cap": float(rng.uniform(1.1, 2)),
        },
    )


def play_markets(disputes: int) -> Iterator[tuple[int, Counts, Kept]]:
    """Yield a seed, the counts and the tables of markets, until so many disputes were played."""
    seed = 0
    while disputes > 0:
        kept = Kept()
        counts = simulate(draw_market(seed), kept)
        yield seed, counts, kept
        disputes -= counts.played
        seed += 1


def check_markets(disputes: int) -> Counter[str]:
    """Play drawn markets, and return the sums of what was seen in them.

    Raises:
        DisagreementError: a dispute ends otherwise on the contract than was modelled.
    """
    seen, modelled, played = Counter[str](), Counter[str](), Counter[str]()
    for _seed, counts, kept in play_markets(disputes):
        assert counts.disagreements == 0
        seen.update(
            played=counts.played, missed=counts.missed_clocks, spoiled=counts.spoiled, markets=1
        )
        waited = {row["job"] for row in kept.read("jobs") if row["waited_blocks"]}
        games = [game for game in kept.read("games") if game["agrees"] is not None]
        seen["waited"] += sum(game["job"] in waited for game in games)
        for total, gas in zip((modelled, played), sum_gas(kept), strict=True):
            total.update(gas)
    for stage in STAGES:
        assert modelled[stage] == pytest.approx(played[stage], rel=GAS_TOLERANCE), stage
    return seen


@pytest.mark.slow
def test_drawn_markets_with_spikes_end_on_the_contract_as_modelled() -> None:
    """Not one of 500 disputes ends otherwise, be it that calls waited and clocks were missed."""
    seen = check_markets(DISPUTES)
    assert seen["played"] >= DISPUTES
    assert seen["waited"] >= DISPUTES // 4
    assert min(seen["missed"], seen["spoiled"]) > 0
