"""A market that is played on a real node comes to what it does on the chain in memory."""

import pytest

from moot.sim.economy.config import IN_PROCESS, replace_keys
from moot.sim.economy.simulate import simulate
from moot.sim.experiments.presets import open_config
from tests.economy_helpers import Kept
from tests.node.anvil import Anvil

TOLERANCE = 0.002
"""How far the gas of a call may be from that of the same call on the other chain."""

SEED, JOBS = 6, 2
"""Jobs of an honest provider with a liar, and of two that agree."""


@pytest.mark.slow
def test_a_market_is_the_same_on_a_node(node: Anvil) -> None:
    """The same fates and calls, for nearly the same gas, and no balance is a wei from what is paid.

    Other addresses have other zero bytes, each of which is 12 gas.
    """
    base = replace_keys(open_config("played"), {"jobs": JOBS, "seed": SEED})
    told, gases = list[tuple[object, ...]](), list[list[int]]()
    for url in (IN_PROCESS, node.url):
        kept = Kept()
        counts = simulate(replace_keys(base, {"chain.url": url}), kept)
        calls = sorted(
            (row["job"], row["player"], row["function"], row["gas"]) for row in kept.read("calls")
        )
        fates = [(row["account"], row["fate"], row["is_right"]) for row in kept.read("accounts")]
        gases.append([call[-1] for call in calls])
        told.append((counts.right, counts.wrong, fates, [call[:-1] for call in calls]))
        assert counts.disputed > 0
    assert told[0] == told[1]
    assert gases[0] == pytest.approx(gases[1], rel=TOLERANCE)
