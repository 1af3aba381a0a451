"""Traces: jobs, base fees and prices of hardware as a file has them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moot
from docs.tools import traces
from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI
from moot.sim.experiments.plan import make_plan
from moot.sim.experiments.provenance import describe_plan
from moot.sim.traces.files import list_traces
from moot.sim.traces.series import Factors, read_arrivals, read_base_fees
from tests.economy_helpers import FixedOutcomes, make_config, make_group, play


def write(path: Path, text: str) -> str:
    """Write a trace; return its name."""
    path.write_text(text)
    return str(path)


def test_jobs_arrive_when_the_trace_says(tmp_path: Path) -> None:
    """Each job has its block and its worth; after the last row the trace begins again."""
    name = write(tmp_path / "jobs.csv", "block,value_eth\n3,0.5\n3,2\n10,1.25\n")
    kept, _ = play(make_config(jobs=5, clients={"arrivals": name}), FixedOutcomes())
    rows = kept.read("jobs")
    rows.sort(key=lambda row: row["job"])
    assert [row["arrived"] for row in rows] == [3, 3, 10, 14, 14]
    assert [row["value_gwei"] / GWEI for row in rows] == [0.5, 2, 1.25, 0.5, 2]


def test_without_values_they_are_drawn_as_ever(tmp_path: Path) -> None:
    """A trace of blocks alone leaves all else to chance, by the same streams."""
    name = write(tmp_path / "jobs.csv", "block\n1\n2\n")
    plain, _ = play(make_config(jobs=50), FixedOutcomes())
    traced, _ = play(make_config(jobs=50, clients={"arrivals": name}), FixedOutcomes())
    worth = [sorted((r["job"], r["value_gwei"]) for r in it.read("jobs")) for it in (plain, traced)]
    assert worth[0] == worth[1]
    assert next(read_arrivals(name)) == (1.0, None)


def test_gas_costs_what_the_trace_says(tmp_path: Path) -> None:
    """The base fee of each block is the file's, of CSV or Parquet, again from its beginning."""
    fees = [20.0, 30.0, 25.0, 1.0]
    path = tmp_path / "fees.parquet"
    pq.write_table(pa.table({"block": list(range(4)), "base_fee_gwei": fees}), path)
    kept, _ = play(make_config(jobs=50, chain={"base_fees": str(path)}), FixedOutcomes())
    rows = kept.read("ledger")
    assert len({row["base_fee_wei"] for row in rows}) == 4
    for row in rows:
        assert row["base_fee_wei"] == fees[row["block"] % 4] * 10**9


def test_work_costs_what_the_trace_says(tmp_path: Path) -> None:
    """From a row's block on all work costs its factor, of those who come later, too."""
    name = write(tmp_path / "hardware.csv", "block,work_factor\n0,1\n40,0.25\n4000,4\n")
    factors = Factors(name)
    assert [factors.find(it) for it in (0, 39, 40, 3999, 4000, 4001, 4041)] == [
        *(1, 1, 0.25, 0.25, 4, 1, 0.25),
    ]
    config = make_config(
        providers=[make_group("honest", count=4)],
        watchers=[],
        entry={"per_1000_blocks": 20},
        hardware={"prices": name},
    )
    kept, _ = play(config, FixedOutcomes())
    usual = round(config.providers[0].work_eth * GWEI)
    rows = kept.read("jobs")
    early = [row["price_gwei"] for row in rows if row["arrived"] < 40 and row["price_gwei"]]
    late = [row["price_gwei"] for row in rows if row["arrived"] >= 40 and row["price_gwei"]]
    assert early
    assert late
    whole = sum(row["work_gwei"] for row in kept.read("agents"))
    assert whole == len(early) * usual + len(late) * round(usual * 0.25)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("block,base_fee_gwei\n0,1\n2,1\n", "row 2 is of block 2, and not of 1"),
        ("block,base_fee_gwei\n1,1\n2,1\n", "row 1 is of block 1, and not of 0"),
        ("block,base_fee_gwei\n0,1\n1,1\n0,1\n", "row 3 is of block 0, after one of 1"),
        ("block,base_fee_gwei\n0,-1\n", "row 1 has base_fee_gwei = -1"),
        ("block,base_fee_gwei\n0,inf\n", "row 1 has base_fee_gwei = inf"),
        ("block,base_fee_gwei\n0,nan\n", "not made of numbers"),
        ("block,base_fee_gwei\n0,\n", "not made of numbers"),
        ("block,base_fee_gwei\n0,much\n", "not made of numbers"),
        ("block,base_fee_gwei\n0.5,1\n", "row 1 has block = 0.5"),
        ("block,base_fee\n0,1\n", "did you mean 'base_fee_gwei'"),
        ("block\n0\n", "has no column `base_fee_gwei`"),
        ("block,base_fee_gwei\n", "0 rows"),
        ("block,base_fee_gwei\n0,1,2\n", "is no table"),
        ("", "is no table"),
    ],
)
def test_a_trace_that_is_none_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Gaps, order, negative values, NaN and columns are named, with the row."""
    name = write(tmp_path / "fees.csv", text)
    with pytest.raises(UsageError) as error:
        moot.simulate(chain_base_fees=name, jobs=5)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["nowhere.csv", "day-of-fee"])
def test_a_trace_that_is_not_there_is_refused(name: str) -> None:
    """The line names the file, or the traces that come with us."""
    with pytest.raises(UsageError, match=r"cannot read nowhere\.csv|day-of-fees"):
        read_base_fees(name)


def test_what_comes_with_us_is_what_its_tool_makes(tmp_path: Path) -> None:
    """The traces are generated: the tool makes these very bytes."""
    traces.write(tmp_path)
    assert sorted(traces.TRACES) == list_traces()
    for name in list_traces():
        shipped = traces.FOLDER / f"{name}.csv"
        assert (tmp_path / f"{name}.csv").read_bytes() == shipped.read_bytes()


def test_a_day_of_traces_is_reached_from_python(tmp_path: Path) -> None:
    """Both traces by their names; the digest of a file of the user's is in the provenance."""
    results = moot.simulate(
        jobs=300, chain_base_fees="day-of-fees", clients_arrivals="day-of-jobs", seed=1
    )
    (row,) = results.to_arrow("runs").to_pylist()
    assert row["status"] == "done"
    name = write(tmp_path / "jobs.csv", "block\n1\n")
    plan = make_plan(make_config(clients={"arrivals": name}), (), 1)
    assert list(describe_plan(plan)["files"]) == [name]
