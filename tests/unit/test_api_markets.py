"""Simulated markets in Python: names and objects in memory, tables, and what is refused."""

from dataclasses import dataclass, field

import pyarrow.parquet as pq
import pytest

import moot
from moot.asking import ask, vary
from moot.sim.economy.facts import Job, Own
from moot.sim.economy.streams import Stream

JOBS = 60


@dataclass
class Forgetful(moot.Strategy):
    """Cheats in every other job of its own."""

    period: int = 2
    seen: list[int] = field(init=False, default_factory=list)

    def decide(self, job: Job, own: Own, stream: Stream) -> str | None:
        """Count."""
        del job, own, stream
        self.seen.append(1)
        return "honest" if len(self.seen) % self.period else "lazy"


@dataclass(frozen=True)
class HalfOfValue(moot.Mechanism):
    """A bond of half of what an answer is worth."""

    share: float = 0.5

    def size(self, value_gwei: int, reputation: float) -> int:
        """Return it."""
        del reputation
        return round(value_gwei * self.share)


def test_objects_in_memory_are_as_good_as_names() -> None:
    """A rule and a strategy that are held in memory are played, each agent with a copy."""
    own = Forgetful()
    results = moot.simulate(
        jobs=JOBS, seed=1, bond=HalfOfValue(), providers=[("honest", 3), (own, 3)]
    )
    agents = results.to_arrow("agents").to_pylist()
    mine = [agent for agent in agents if agent["strategy"] == "Forgetful"]
    assert len(mine) == 3
    assert all(agent["cheated"] == agent["jobs"] // 2 for agent in mine)
    assert not own.seen
    again = moot.simulate(
        jobs=JOBS, seed=1, bond=HalfOfValue(), providers=[("honest", 3), (own, 3)]
    )
    assert again.to_arrow() == results.to_arrow()
    other = moot.simulate(jobs=JOBS, seed=1, providers=[("honest", 3), (own, 3)])
    assert other.to_arrow() != results.to_arrow()


def test_keys_have_points_or_low_lines() -> None:
    """`bond_eth` is the key `bond.eth`, a key of one word is itself, and `set` takes points."""
    asked = ask("weak-audit", {"chain.tip_gwei": 2.0}, {"bond_eth": 0.25, "moves_of_games": 3})
    assert asked.config.bond["eth"] == 0.25
    assert asked.config.chain.tip_gwei == 2
    assert asked.config.moves_of_games == 3
    assert not asked.held


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"bnd_eth": 1}, "bnd_eth"),
        ({"bond": HalfOfValue}, "no object of a dataclass"),
        ({"providers": [3]}, "no pair of a strategy and a count"),
        ({"set": {"bond.eth": 1}, "bond_eth": 2}, "given twice"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], says: str) -> None:
    """An unknown key, a class for an object, and a value twice are refused in one line."""
    with pytest.raises(moot.UsageError, match=says) as caught:
        moot.simulate(**settings)  # type: ignore[arg-type] # on purpose
    assert "\n" not in str(caught.value)


def test_a_sweep_is_a_grid_with_its_tables(tmp_path: object) -> None:
    """A sweep in Python leaves the folder of the command's, and says what became of the runs."""
    folder = f"{tmp_path}/grid"
    results = moot.sweep("baseline", {"bond.eth": "0.5:1:0.5"}, reps=2, jobs=20, output=folder)
    assert results.to_arrow()["bond.eth"].to_pylist() == [0.5, 0.5, 1.0, 1.0]
    assert pq.read_table(f"{folder}/runs.parquet") == results.to_arrow("runs")
    assert results.counts["runs"] == results.played == 4
    with pytest.raises(moot.UsageError, match="unknown table"):
        results.to_arrow("jbos")


def test_sums_are_those_of_the_tables() -> None:
    """Sums by strategy are those of the agents' table, and a sweep's are not described as one."""
    results = moot.simulate("baseline", jobs=40)
    agents = results.to_arrow("agents").to_pylist()
    rows = results.sum_strategies()
    assert sum(row["agents"] for row in rows) == len(agents)
    assert sum(row["profit_gwei"] for row in rows) == sum(it["profit_gwei"] for it in agents)
    assert results.describe()["strategies"] == rows
    with pytest.raises(moot.UsageError, match="the results of 2 runs"):
        moot.sweep("baseline", {"bond.eth": [0.5, 1]}, jobs=5).describe()


def test_a_sweep_of_objects_stays_in_this_process() -> None:
    """Another process does not know what is held here, and so it is not asked to."""
    with pytest.raises(moot.UsageError, match="played in this process"):
        moot.sweep("baseline", {"bond.share": [0.5]}, bond=HalfOfValue(), processes=2)
    with pytest.raises(moot.UsageError, match="one of them twice"):
        vary({"bond.eth": [1, 1]})


@pytest.mark.slow
def test_results_are_shown_in_a_notebook() -> None:
    """A notebook shows the report of a market, apart from its own scripts."""
    shown = moot.simulate(jobs=JOBS)._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown
