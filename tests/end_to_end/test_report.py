"""The command `moot report`: what it shows is what the tables say, and bad input is one line."""

import csv
import json
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq
import pytest

from moot.sim.economy.schema import RUNS, STAGES, TABLES
from moot.sim.experiments.plan import make_plan
from moot.sim.experiments.presets import open_config
from moot.sim.experiments.values import parse_varied
from moot.sim.report.plot import Drawn, Plot
from moot.sim.report.plots import griefing, heat, phases, profit, survival
from moot.sim.report.plots.table import PLOTS
from moot.sim.report.results import Results
from tests.end_to_end.command import complaint, moot
from tests.quick import every
from tests.report_helpers import EXAMPLE, OF_ANSWERS, ROOT, make_broken, make_sweep

GWEI = 10**9

UNREAD = ("calls", "accounts")
"""The tables of receipts, which no report draws."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small sweep that has what every plot needs."""
    return make_sweep(tmp_path_factory.mktemp("swept"))


@pytest.fixture
def copied(swept: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(swept, tmp_path / "copied"))


def read_rows(folder: Path, table: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table from its CSV file."""
    with (folder / f"{table}.csv").open(newline="") as file:
        yield from csv.DictReader(file)


def test_a_report_has_every_plot_and_is_the_same_again(swept: Path, tmp_path: Path) -> None:
    """All plots are drawn from a sweep that has what they need; the same folder, the same bytes."""
    told = []
    for path in (tmp_path / "one.html", tmp_path / "two.html"):
        done = moot("report", str(swept), "-o", str(path), "--json")
        assert (done.status, done.stderr) == (0, "")
        told.append(json.loads(done.stdout))
        assert told[-1].pop("file") == str(path)
    assert told[0] == told[1]
    plots = told[0]["plots"]
    assert {it for it in plots if plots[it] != "drawn"} == OF_ANSWERS
    assert plots.keys() == {plot.name for plot in PLOTS}
    assert told[0]["runs"] == 32
    assert told[0]["games"] > 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "two.html"]


def test_the_page_has_every_strategy_and_whose_games_they_are(swept: Path, tmp_path: Path) -> None:
    """A row for each strategy with its mean profit, and games under the names of strategies."""
    assert moot("report", str(swept), "-o", str(tmp_path / "page.html")).status == 0
    page = (tmp_path / "page.html").read_text()
    profits: dict[str, list[int]] = defaultdict(list)
    for row in read_rows(swept, "agents"):
        profits[f"<td>{row['role']}</td><td>{row['strategy']}</td>"].append(int(row["profit_gwei"]))
    for cells, amounts in profits.items():
        (line,) = (line for line in page.splitlines() if cells in line)
        assert f"<td>{fmean(amounts) / GWEI:+,.4f}</td>" in line
        assert f"<td>{len(amounts):,}</td>" in line
    (data,) = re.findall(r'id="data">(.*?)</script>', page)
    parties = defaultdict(list)
    for row in read_rows(swept, "parties"):
        parties[int(row["run"]), int(row["game"])].append(row["strategy"])
    games = json.loads(data)["games"]
    assert games
    for game in games:
        assert game["strategies"] == "+".join(parties[game["run"], game["game"]])


def test_profits_are_those_of_the_agents(swept: Path) -> None:
    """A point of the profit plot is the mean over runs of the mean over a strategy's providers."""
    bonds = {row["run"]: float(row["bond.eth"]) for row in read_rows(swept, "runs")}
    runs = defaultdict(list)
    for row in read_rows(swept, "agents"):
        if row["role"] == "provider":
            runs[row["strategy"], bonds[row["run"]], row["run"]].append(int(row["profit_gwei"]))
    means = defaultdict(list)
    for (strategy, bond, _), profits in runs.items():
        means[strategy, bond].append(fmean(profits) / GWEI)
    made = profit.PLOT.make(Results(swept))
    assert isinstance(made, Drawn)
    drawn = {
        (trace.name, x): y
        for trace in made.figure.data
        for x, y in zip(trace.x, trace.y, strict=True)
    }
    assert drawn == pytest.approx({key: fmean(values) for key, values in means.items()})


def test_the_heat_map_is_of_the_parties(swept: Path) -> None:
    """A cell is the mean profit of a strategy in the games in which another party had the other."""
    agents = {(r["run"], r["agent"]): r["strategy"] for r in read_rows(swept, "agents")}
    games = defaultdict(list)
    for row in read_rows(swept, "parties"):
        assert row["strategy"] == agents[row["run"], row["agent"]]
        games[row["run"], row["game"]].append((row["strategy"], int(row["profit_gwei"]) / GWEI))
    wanted = defaultdict(list)
    for table in games.values():
        for place, (own, gained) in enumerate(table):
            for other in {name for name, _ in table[:place] + table[place + 1 :]}:
                wanted[own, other].append(gained)
    found = heat.measure_profits(Results(swept))
    assert {pair: count for pair, (_, count) in found.items()} == {
        pair: len(values) for pair, values in wanted.items()
    }
    for pair, (total, _) in found.items():
        assert total == pytest.approx(sum(wanted[pair]))


def test_losses_are_those_of_the_parties(swept: Path) -> None:
    """Defenders lose their fees, and others whole bonds, too; the sums are those of the table."""
    rows = {row["run"]: row for row in read_rows(swept, "runs")}
    wanted: dict[tuple[float, int], griefing.Losses] = defaultdict(griefing.Losses)
    for party in read_rows(swept, "parties"):
        run = rows[party["run"]]
        losses = wanted[float(run["chain.base_fee_gwei"]), int(party["run"])]
        fees, lost = int(party["fees_gwei"]), int(party["lost_gwei"])
        assert lost % round(float(run["bond.eth"]) * GWEI) == 0
        if party["conduct"] in {"honest", "watcher"}:
            assert not lost
            losses.defence += fees
        else:
            losses.fees += fees
            losses.bonds += lost
    assert griefing.sum_losses(Results(swept), "chain.base_fee_gwei") == wanted


def test_survival_is_of_all_providers(swept: Path) -> None:
    """Every provider is in one curve; those that have left are those with a block of leaving."""
    stays = survival.collect_stays(Results(swept))
    rows = [row for row in read_rows(swept, "agents") if row["role"] == "provider"]
    assert {name: len(those) for name, those in stays.items()} == {
        name: sum(row["strategy"] == name for row in rows) for name in stays
    }
    left = sum(stay.has_left for those in stays.values() for stay in those)
    assert left == sum(row["left"] != "" for row in rows) > 0


def test_phases_add_up_to_games(swept: Path) -> None:
    """The bars of a lineup add up to the mean gas of its games."""
    gas = defaultdict(list)
    for row in read_rows(swept, "games"):
        gas[row["lineup"]].append(sum(int(row[f"gas_{stage}"]) for stage in STAGES))
    made = phases.PLOT.make(Results(swept))
    assert isinstance(made, Drawn)
    sums: dict[str, float] = defaultdict(float)
    for trace in made.figure.data:
        for label, x in zip(trace.y, trace.x, strict=True):
            sums[label] += x * 1000
    assert sums == pytest.approx(
        {f"{lineup} ({len(values):,})": fmean(values) for lineup, values in gas.items()}
    )


def test_what_a_folder_lacks_is_said(tmp_path: Path) -> None:
    """A plot without its data is replaced by the command that makes it, in the page and in JSON."""
    folder = make_sweep(tmp_path, "providers.lazy.capital_eth=2.5", reps=1)
    done = moot("report", str(folder), "--json")
    plots = json.loads(done.stdout)["plots"]
    lacking = [it for it in PLOTS if plots[it.name] != "drawn" and it.name not in OF_ANSWERS]
    assert [plot.name for plot in lacking] == ["profit", "audits", "griefing", "sybils"]
    page = (folder / "report.html").read_text()
    for plot in lacking:
        assert f"do not vary {plot.key.split()[0]}" in plots[plot.name]
        assert f"<code>{plot.command}</code>" in page


def test_answers_by_receipt_are_drawn(tmp_path: Path) -> None:
    """A market of answers has the plots that one of auctions lacks."""
    words = ("inference", "--set", "jobs=3000", "-o", str(tmp_path / "answers"), "--json")
    assert moot("market", *words).status == 0
    done = moot("report", str(tmp_path / "answers"), "--json")
    plots = json.loads(done.stdout)["plots"]
    assert {plots[name] for name in OF_ANSWERS} == {"drawn"}


@pytest.mark.parametrize("plot", [plot for plot in PLOTS if plot.command], ids=lambda p: p.name)
def test_commands_that_make_data_are_good_ones(plot: Plot) -> None:
    """A command that a section names is a sweep, or market, that there is, and varies its key."""
    program, verb, preset, *words = shlex.split(plot.command)
    assert program == "moot"
    settings = [word for before, word in pairwise(words) if before == "--set"]
    plan = make_plan(open_config(preset), parse_varied(settings))
    assert verb == ("sweep" if plot.key else "market")
    assert [one.key for one in plan.varied] == plot.key.split()[:1]


def test_failures_and_forfeits_are_said(tmp_path: Path, swept: Path) -> None:
    """A run that failed stands in the summary with its error, as text; so do forfeits."""
    folder = make_broken(tmp_path)
    assert moot("report", str(folder)).status == 0
    page = (folder / "report.html").read_text()
    assert re.search(r"Run 1 failed: \S+broken.py:Broken", page)
    assert "<i>" not in page.partition("<script>")[0]
    assert moot("report", str(swept), "-o", str(tmp_path / "whole.html")).status == 0
    forfeits = sum(row["kind"] == "forfeit" for row in read_rows(swept, "events"))
    counts = re.findall(r"forfeited ([\d,]+) decision", (tmp_path / "whole.html").read_text())
    assert sum(int(count.replace(",", "")) for count in counts) == forfeits > 0


def test_the_documented_plot_is_drawn(swept: Path, tmp_path: Path) -> None:
    """The plot that the documentation shows is the example's file, and a report shows it."""
    code = EXAMPLE.read_text().partition("\n")[2]
    assert f"```python\n{code}```" in (ROOT / "docs" / "how-to" / "report.md").read_text()
    words = ("--plot", str(EXAMPLE), "-o", str(tmp_path / "report.html"), "--json")
    assert json.loads(moot("report", str(swept), *words).stdout)["plots"]["base-fee"] == "drawn"
    twice = moot("report", str(swept), *words, "--plot", str(EXAMPLE))
    assert "called 'base-fee' already" in complaint(twice, status=2)


HEAD = "from moot.sim.report.plot import Drawn, Lack, Plot\n"
BAD_PLOTS = {
    "raise ValueError('a\\nb')": ("ValueError: a", 2),
    "1 +": ("SyntaxError", 2),
    "x = 1": ("has no plot; write PLOT = Plot(...)", 2),
    "PLOT = Plot('A b', 't', print)": ("is no name; use small letters", 2),
    "PLOT = Plot('games', 't', print)": ("called 'games' already", 2),
    "PLOT = Plot('heat', 't', print)": ("called 'heat' already", 2),
    "PLOT = Plot('mine', 't', lambda results: 3)": ("the plot mine returned 3", 2),
    "PLOT = Plot('mine', 't', lambda results: Drawn(1, 'x'))": ("the plot mine returned", 2),
    "PLOT = Plot('mine', 't', lambda results: 1 / 0)": ("raised ZeroDivisionError", 1),
    "PLOT = Plot('mine', 't', lambda results: exit(3))": ("raised SystemExit", 1),
    "PLOT = Plot('mine', 't', lambda r: r.read('jbos', []))": ("did you mean 'jobs'?", 2),
    "PLOT = Plot('mine', 't', lambda r: r.read('jobs', ['gsa']))": ("did you mean 'gas'?", 2),
}


@pytest.mark.parametrize("code", every(6, BAD_PLOTS))
def test_bad_plots_are_one_line(swept: Path, tmp_path: Path, code: str) -> None:
    """A user's file that can't be used is one line of error, and leaves no report."""
    says, status = BAD_PLOTS[code]
    file = tmp_path / f"plot{list(BAD_PLOTS).index(code)}.py"
    file.write_text(HEAD + code + "\n")
    output = tmp_path / "report.html"
    done = moot("report", str(swept), "--plot", str(file), "-o", str(output))
    assert says in complaint(done, status=status)
    assert not output.exists()


def test_folders_that_hold_no_results_are_one_line(tmp_path: Path) -> None:
    """Neither a missing folder, nor an empty one, nor a file is a results folder."""
    file = tmp_path / "file"
    file.write_text("")
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder, says in {
        tmp_path / "none": "there is no folder",
        file: "there is no folder",
        empty: "is no results folder: it has no run.json",
    }.items():
        assert says in complaint(moot("report", str(folder)), status=2)
    assert list(empty.iterdir()) == []
    missing = moot("report", str(empty), "--plot", str(tmp_path / "none.py"))
    complaint(missing, status=2)


@pytest.mark.parametrize("table", every(12, ["runs", *(it for it in TABLES if it not in UNREAD)]))
def test_damaged_tables_are_one_line(copied: Path, table: str) -> None:
    """A truncated table is one line with its name, where it is read; it is never half a report."""
    path = copied / f"{table}.parquet"
    whole = path.read_bytes()
    for part in (whole[: len(whole) // 2], whole[:-3], b"", b"PAR1"):
        path.write_bytes(part)
        done = moot("report", str(copied), "--plot", str(EXAMPLE))
        assert str(path) in complaint(done, status=2)
        assert not (copied / "report.html").exists()


def test_damaged_pages_of_a_table_are_one_line(copied: Path) -> None:
    """So is a table whose frame is whole, and whose data are not."""
    path = copied / "agents.parquet"
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)
    assert str(path) in complaint(moot("report", str(copied)), status=2)


def test_tables_of_another_form_are_one_line(copied: Path) -> None:
    """A table without a column, without values in it, or with others, is one line."""
    path = copied / "agents.parquet"
    agents = pq.read_table(path)
    lacking = pq.read_table(path).drop_columns(["strategy"])
    nothing = agents.set_column(
        agents.column_names.index("strategy"), "strategy", [[None] * agents.num_rows]
    )
    text = agents.set_column(
        agents.column_names.index("forfeits"), "forfeits", [["much"] * agents.num_rows]
    )
    for bad, says in ((lacking, "strategy"), (nothing, "without strategy"), (text, "cannot read")):
        pq.write_table(bad, path)
        line = complaint(moot("report", str(copied)), status=2)
        assert says in line
        assert str(path) in line


def test_a_folder_without_runs_is_one_line(copied: Path) -> None:
    """An empty table of runs is no reason for an empty report."""
    pq.write_table(RUNS.empty_table(), copied / "runs.parquet")
    assert "has no runs" in complaint(moot("report", str(copied)), status=2)
    for text in ("{", "[]", "\udcff"):
        (copied / "run.json").write_text(text, errors="surrogateescape")
        assert "run.json is not" in complaint(moot("report", str(copied)), status=2)


def test_output_that_cannot_be_written_is_one_line(swept: Path, tmp_path: Path) -> None:
    """A full or missing disk is one line, and what was there before stays."""
    for path in (Path("/dev/full"), tmp_path / "none" / "report.html", tmp_path):
        done = moot("report", str(swept), "-o", str(path))
        assert "cannot write" in complaint(done, status=2)
    assert list(tmp_path.iterdir()) == []
