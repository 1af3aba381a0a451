"""Small sweeps of real markets, for the tests of the report."""

from pathlib import Path

from tests.end_to_end.command import moot

ROOT = Path(__file__).parents[1]
OF_ANSWERS = frozenset({"receipts", "cover", "service"})
"""The plots of answers by receipt, of which a sweep of auctions has none."""
EXAMPLE = ROOT / "examples" / "base_fee_plot.py"

SETTINGS = (
    "bond.eth=0.2,1",
    "audit.rate=0.1,0.5",
    "chain.base_fee_gwei=20,200",
    "providers.sybil-swarm.count=0,4",
)
"""One of each key that a plot is drawn against."""

_MARKET = """
jobs = 60
seats = 2
moves_of_games = 2

[[providers]]
strategy = "honest"
count = 6

[[providers]]
strategy = {strategy}
count = 3
capital_eth = 2.5

[[watchers]]
strategy = "watcher"
count = 2
"""

_STRATEGY = '''
from dataclasses import dataclass

from moot.sim.economy.strategies.base import Strategy


@dataclass
class Cheat(Strategy):
    """The strategy of running nothing."""

    def decide(self, job, own, stream):
        return "lazy"
'''

_BROKEN = """
from dataclasses import dataclass

from moot.sim.economy.mechanisms.base import Audit


@dataclass(frozen=True)
class Broken(Audit):
    \"\"\"The rule that fails while a market runs.\"\"\"

    def choose_rate(self, reputation):
        raise ValueError("<i>broken</i>\\nbeyond repair")
"""

_FILE = Path("<b>a<", "script><script>hacked=1<", "script><img src=x onerror=hacked=1>.py")
"""A path that leaves a script, if any part of a page takes it as it is written."""


def make_sweep(
    folder: Path, *settings: str, strategy: str = "lazy", reps: int = 2, status: int = 0
) -> Path:
    """Run a sweep over some keys, or all of SETTINGS, and return its folder."""
    config = folder / "market.toml"
    config.write_text(_MARKET.format(strategy=f"'{strategy}'"), encoding="utf-8")
    results = folder / "results"
    options = [word for setting in settings or SETTINGS for word in ("--set", setting)]
    done = moot("sweep", str(config), *options, "--reps", str(reps), "-j", "1", "-o", str(results))
    assert done.status == status, (done.stdout, done.stderr)
    return results


def make_broken(folder: Path) -> Path:
    """Run a sweep of which some runs fail, and return its folder."""
    path = folder / "broken.py"
    path.write_text(_BROKEN, encoding="utf-8")
    names = f"audit.name=constant,{path}:Broken"
    return make_sweep(folder, names, reps=1, status=1)


def make_hostile(folder: Path) -> tuple[Path, str]:
    """Run a market with a strategy whose name is markup; return its folder, and the name."""
    path = folder / _FILE
    path.parent.mkdir(parents=True)
    path.write_text(_STRATEGY, encoding="utf-8")
    name = f"{path}:Cheat"
    return make_sweep(folder, "bond.eth=0.2,1", strategy=name, reps=1), name
