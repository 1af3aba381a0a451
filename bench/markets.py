"""Simulated markets: how long a job takes, and which share of that the invariants are.

    python -m bench.markets

plays the baseline with 1,000 providers, with the check of the ledger after every block and without
it by turns, and prints a table. Times are the processor's, the least of each side; no tables are
written, beside which the checks would look cheaper.
"""

import argparse
import time
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from sim.economy.config import Config, replace_keys
from sim.economy.ledger import Ledger
from sim.economy.simulate import simulate
from sim.experiments.presets import open_config

RATES = (25.0, 5.0, 0.5)
"""Jobs per block: the checks are per block, everything else is per job."""

_TURNS = 4
_CROWD = {
    "providers.honest.count": 800,
    "providers.lazy.count": 200,
    "watchers.watcher.count": 100,
}


class Nothing:
    """A sink that keeps no rows."""

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Keep nothing."""


def time_run(config: Config) -> float:
    """Return the seconds of a processor that a run takes."""
    start = time.process_time()
    simulate(config, Nothing())
    return time.process_time() - start


def compare(config: Config) -> tuple[float, float]:
    """Return the least seconds of a run with the checks, and without them."""
    simulate(config, Nothing())
    checked, unchecked = [], []
    for _ in range(_TURNS):
        checked.append(time_run(config))
        with patch.object(Ledger, "check", lambda *_: (0, 0)):
            unchecked.append(time_run(config))
    return min(checked), min(unchecked)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="how many a run has")
    jobs = parser.parse_args().jobs
    table = Table("jobs a block", "us a job", "without checks", "share of the checks")
    for rate in RATES:
        changed = _CROWD | {"jobs": jobs, "clients.jobs_per_block": rate}
        checked, unchecked = compare(replace_keys(open_config("baseline"), changed))
        share = (checked - unchecked) / checked
        micros = (f"{seconds / jobs * 1e6:.1f}" for seconds in (checked, unchecked))
        table.add_row(f"{rate:g}", *micros, f"{share:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
