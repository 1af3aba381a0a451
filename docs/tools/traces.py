"""Makes the traces that come with the simulator: `python docs/tools/traces.py` writes them anew.

They are generated, from a seed: no chain and no market has recorded them. `day-of-fees` is a day of
base fees on the first layer, which follow demand (EIP-1559): for the first hour it is eight times
as high, and fees are highest in the afternoon. `day-of-jobs` is a day of jobs with three bursts,
and what each is worth.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from moot.sim.economy.config import Chain
from moot.sim.economy.prices import Prices
from moot.sim.traces.files import FOLDER
from moot.sim.traces.series import BASE_FEE, VALUE

SEED = 45
DAY_BLOCKS = 7_200
"""Blocks of 12 seconds in a day."""

CHAIN = Chain(
    base_fee_gwei=20.0, volatility=0.3, spike_factor=8.0, spike_every=DAY_BLOCKS, spike_blocks=300
)

_BURSTS = (1_500, 3_900, 5_200)
_BURST_BLOCKS, _BURST_RATE, _RATE = 150, 1.5, 0.15
"""How long a burst lasts, and how many jobs come in a block then, and else."""


def make_fees() -> Iterator[str]:
    """Yield the lines of a day of base fees."""
    yield f"block,{BASE_FEE}"
    prices = Prices(CHAIN, SEED)
    for block in range(DAY_BLOCKS):
        tide = 1 + 0.3 * np.sin((block / DAY_BLOCKS - 3 / 8) * 2 * np.pi)
        yield f"{block},{prices.base_fee_wei / 1e9 * tide:.3f}"
        prices.go_on(block + 1, 0)


def make_jobs() -> Iterator[str]:
    """Yield the lines of a day of jobs."""
    yield f"block,{VALUE}"
    rng = np.random.default_rng(SEED)
    for block in range(DAY_BLOCKS):
        is_burst = any(first <= block < first + _BURST_BLOCKS for first in _BURSTS)
        for _ in range(rng.poisson(_BURST_RATE if is_burst else _RATE)):
            yield f"{block},{0.5 * np.exp(0.3 * rng.standard_normal()):.4f}"


TRACES = {"day-of-fees": make_fees, "day-of-jobs": make_jobs}
"""Each trace by its name."""


def write(folder: Path) -> None:
    """Write all traces into a folder."""
    for name, make in TRACES.items():
        (folder / f"{name}.csv").write_text("\n".join(make()) + "\n")


if __name__ == "__main__":
    write(FOLDER)
