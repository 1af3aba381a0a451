"""Reports after the burn-in: what is left out and marked, whose seeds they are, what was varied."""

import json
from pathlib import Path
from statistics import fmean
from types import ModuleType

import pytest

import moot
from moot.sim.economy.schema import JOBS
from moot.sim.report.agents import read_agents
from moot.sim.report.courses import read_courses
from moot.sim.report.page import make_page
from moot.sim.report.plot import Drawn, Lack
from moot.sim.report.plots import gas, over_time, prices, queue, reputation
from moot.sim.report.plots.table import PLOTS
from moot.sim.report.provenance import describe
from moot.sim.report.results import Results
from moot.sim.report.summary import summarise

GWEI = 10**9


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over rates of audits, with a bond that has one value, and a burn-in of a quarter."""
    folder = tmp_path_factory.mktemp("swept") / "results"
    varied = {"audit.rate": [0.1, 0.9], "bond.eth": [0.5], "seed": [7], "burn_in": [0.25]}
    moot.sweep("baseline", varied, reps=2, jobs=200, output=folder)
    return folder


def test_what_has_one_value_is_not_varied(swept: Path) -> None:
    """A key that is set to one value is named with it, and neither varied nor a column."""
    results = Results(swept)
    assert results.keys == ("audit.rate",)
    assert dict(results.fixed) == {"bond.eth": 0.5, "set.seed": 7.0, "set.burn_in": 0.25}
    told = describe(results)
    assert "audit.rate varied: 0.1, 0.9" in told
    assert "bond.eth 0.5" in told
    assert told.count("varied") == 1
    assert summarise(results).heads[:2] == ["audit.rate", "runs"]
    page = make_page(results, PLOTS)
    assert "Runs with all values of" not in page.text


def test_seeds_are_those_that_were_run(swept: Path) -> None:
    """The line below each figure names the repetitions and their seeds, not the file's seed."""
    results = Results(swept)
    seeds = dict.fromkeys(results.runs["seed"].to_pylist())
    assert next(iter(seeds)) == 7
    assert f"repetitions 0 to 1 with the seeds {', '.join(map(str, seeds))}" in describe(results)
    assert "seed 1 " not in describe(results)
    page = make_page(results, PLOTS)
    (data,) = page.text.partition('id="data">')[2:]
    games = json.loads(data.partition("</script>")[0])["games"]
    by_run = {row["run"]: row for row in results.runs.to_pylist()}
    assert games
    for game in games:
        assert (game["rep"], game["seed"]) == tuple(
            by_run[game["run"]][it] for it in ("rep", "seed")
        )
    assert f"run 0, game {games[0]['game']} (repetition 0, seed 7): " in page.text


def test_tables_without_the_burn_in(swept: Path) -> None:
    """Plots are given rows of jobs after the burn-in, and all of them if they ask."""
    results = Results(swept)
    for name in ("jobs", "games"):
        late, all_rows = (results.read(name, ["job"], with_burn_in=it) for it in (False, True))
        assert min(late["job"].to_pylist()) >= 50 > min(all_rows["job"].to_pylist())
        assert late.num_rows == sum(job >= 50 for job in all_rows["job"].to_pylist())
        assert late.column_names == ["run", "job"]
    games = {(it["run"], it["game"]) for it in results.read("games", ["game"]).to_pylist()}
    parties = results.read("parties", ["strategy"])
    assert parties.column_names == ["run", "strategy"]
    told = results.read("parties", ["game"], with_burn_in=True).to_pylist()
    assert parties.num_rows == sum((it["run"], it["game"]) in games for it in told) < len(told)


def test_agents_are_summed_after_the_burn_in(swept: Path) -> None:
    """The summary's strategies have the jobs and profits of spans that are no burn-in."""
    results = Results(swept)
    agents = read_agents(results)
    spans = results.read("spans", ["role", "jobs", "is_burn_in"], with_burn_in=True).to_pylist()
    late = sum(it["jobs"] for it in spans if not it["is_burn_in"])
    assert sum(agents["jobs"].to_pylist()) == late < sum(it["jobs"] for it in spans)
    assert agents.num_rows == results.count_rows("agents")
    honest = [it for it in agents.to_pylist() if it["strategy"] == "honest"]
    (row,) = (it for it in summarise(results).strategies if it[1] == "honest")
    assert row[-1] == f"{fmean(it['profit_gwei'] for it in honest) / GWEI:+,.4f}"


def test_rates_over_time_are_drawn_with_the_burn_in(swept: Path) -> None:
    """A figure has each rate in each twentieth of the jobs, and the burn-in shaded."""
    made = over_time.PLOT.make(Results(swept))
    assert isinstance(made, Drawn)
    courses = read_courses(Results(swept))
    assert len(courses) == 2
    rates = {trace.name: list(trace.y) for trace in made.figure.data}
    first = fmean(float(run[0]) for course in courses for run in course.series["cheated"])
    assert rates["jobs cheated in"][0] == pytest.approx(first)
    (shape,) = made.figure.layout.shapes
    assert (shape.x0, shape.x1) == (0, 25)
    assert "The first 25% are burn-in" in made.caption
    assert "0 of 2 settings still change" in made.caption


COURSES = {
    prices: {"price of a job": "price_gwei", "fees for its gas": "fees_gwei"},
    reputation: {"honest": "reputation", "lazy": "reputation"},
    queue: {"open jobs": "open_jobs"},
    gas: {"base fee": "base_fee_wei"},
}
"""The lines of each plot over time, and the column of `jobs` or `ledger` that each is a mean of."""


@pytest.mark.parametrize("module", COURSES, ids=lambda it: it.PLOT.name)
def test_courses_are_means_of_the_rows(swept: Path, module: ModuleType) -> None:
    """A line has the mean of the runs' means in each twentieth, and the burn-in is shaded."""
    results = Results(swept)
    made = module.PLOT.make(results)
    assert isinstance(made, Drawn)
    (shape,) = made.figure.layout.shapes
    assert (shape.x0, shape.x1) == (0, 25)
    assert "The first 25% are burn-in" in made.caption
    wanted = ["job", "arrived", "provider", "strategy", "reputation", "price_gwei", "fees_gwei"]
    jobs = results.read("jobs", wanted, with_burn_in=True).to_pylist()
    lines = {trace.name: trace for trace in made.figure.data}
    assert set(lines) == set(COURSES[module])
    for name, column in COURSES[module].items():
        if column in JOBS.names:
            found = [
                (row["run"], row["job"], row[column])
                for row in jobs
                if row["provider"] is not None and name in (row["strategy"], *COURSES[prices])
            ]
        else:
            arrived = [(row["run"], row["arrived"]) for row in jobs]
            found = []
            for row in results.read("ledger", ["block", column]).to_pylist():
                count = sum(run == row["run"] and it <= row["block"] for run, it in arrived)
                found.append((row["run"], max(0, count - 1), row[column]))
        for x, y in zip(lines[name].x, lines[name].y, strict=True):
            means = [
                fmean(own)
                for run in range(4)
                if (own := [it for r, job, it in found if r == run and job // 10 == x // 5])
            ]
            scale = GWEI if column.endswith(("gwei", "wei")) else 1
            assert y == pytest.approx(fmean(means) / scale)


def test_a_market_that_serves_nobody_has_no_prices(tmp_path: Path) -> None:
    """Where nobody served a job, its plots say so; the queue and the price of gas are there."""
    moot.simulate("baseline", jobs=40, pricing_eth=5.0, output=tmp_path / "dear")
    results = Results(tmp_path / "dear")
    for module in (prices, reputation):
        made = module.PLOT.make(results)
        assert isinstance(made, Lack)
        assert made.reason == "nobody served a job"
    assert isinstance(queue.PLOT.make(results), Drawn)
    assert isinstance(gas.PLOT.make(results), Drawn)


def test_a_report_warns_of_a_market_that_changes(tmp_path: Path) -> None:
    """A warm-up is a notice of the report, and one that is over is none."""
    learners = {
        "bond_eth": 0.5,
        "audit_rate": 0.025,
        "providers": [("opportunist", 8)],
        "set": {"providers.opportunist.slots": 20, "providers.opportunist.weight": 1.0},
    }
    moot.simulate("baseline", jobs=3000, burn_in=0, output=tmp_path / "new", **learners)
    (notice,) = summarise(Results(tmp_path / "new")).notices
    assert notice.startswith("The market is not stationary: jobs cheated in (rises")
    made = over_time.PLOT.make(Results(tmp_path / "new"))
    assert isinstance(made, Drawn)
    assert "There is no burn-in" in made.caption
    moot.simulate("baseline", jobs=1000, output=tmp_path / "calm")
    assert summarise(Results(tmp_path / "calm")).notices == []
