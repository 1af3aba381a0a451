"""`moot market` on a real chain: the money, the gas table, the files and the refusals."""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moot.offchain.chain.gas import TRANSACTION_GAS
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.strategies import TRICKS
from tests.end_to_end.command import moot

JOBS = 4
MIX = "honest=2,lazy=1,wrong-output=1,false-flag=1"
LENGTH = ("--steps", "4", "--checkpoint-every", "2")


@dataclass(frozen=True, slots=True)
class Ran:
    """A market that has been run: what it printed, and the files that it left."""

    status: int
    stdout: str
    stderr: str
    files: dict[str, bytes]

    @property
    def told(self) -> dict[str, Any]:
        """The object that it printed."""
        told: dict[str, Any] = json.loads(self.stdout)
        return told

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of a table that it left."""
        return list(csv.DictReader(self.files[name].decode().splitlines()))


def run(*arguments: str, output: Path | None = None) -> Ran:
    """Run `moot market` in this process."""
    files = ("-o", str(output)) if output else ()
    done = moot("market", *arguments, *files)
    left = {path.name: path.read_bytes() for path in output.iterdir()} if output else {}
    return Ran(done.status, done.stdout, done.stderr, left)


def run_market(seed: int, output: Path) -> Ran:
    """Run the market of these tests."""
    arguments = ("--jobs", str(JOBS), "--mix", MIX, "--seed", str(seed), *LENGTH)
    return run(*arguments, "--json", output=output)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One market, run once."""
    return run_market(1, tmp_path_factory.mktemp("market") / "new" / "tables")


def test_it_prints_one_object_and_nothing_else(ran: Ran) -> None:
    """Where stderr is not a terminal there is no bar on it, and stdout is one JSON object."""
    assert (ran.status, ran.stderr) == (0, "")
    parts = {"strategies", "gas", "jobs", "totals", "conservation", "compared_with_torch"}
    assert set(ran.told) == parts
    assert len(ran.told["jobs"]) == JOBS


def test_the_honest_win_what_the_dishonest_lose(ran: Ran) -> None:
    """No honest provider is slashed, all of them gain after fees, and lying to them never pays."""
    honest = next(row for row in ran.told["strategies"] if row["strategy"] == "honest")
    assert honest["jobs"] == honest["won"] == honest["right"] > 0
    for job in ran.told["jobs"]:
        is_watched = any(entry["strategy"] == "honest" for entry in job["entries"])
        for entry in job["entries"]:
            if entry["strategy"] == "honest":
                assert entry["profit_wei"] > 0
            elif is_watched and not entry["is_right"]:
                assert entry["fate"] == "slashed"
                assert entry["profit_wei"] < 0
    assert ran.told["totals"]["disputed"] > 0


def test_value_is_conserved_with_fees(ran: Ran) -> None:
    """What left the accounts was burned or paid for gas, to the wei."""
    flows = ran.told["conservation"]
    assert flows["sum_wei"] == 0
    assert flows["contract_wei"] == 0
    assert flows["fees_wei"] > 0
    assert flows["burned_wei"] > 0
    assert flows["accounts_wei"] == -flows["burned_wei"] - flows["fees_wei"]


def test_the_gas_table_holds_every_transaction(ran: Ran) -> None:
    """The rows sum to the jobs, stage by stage, and calldata and execution make up the gas."""
    told, rows = ran.told, ran.told["gas"]
    assert sum(row["moves"] for row in rows) == told["totals"]["transactions"]
    assert sum(row["gas"]["total"] for row in rows) == told["totals"]["gas"]
    assert sum(job["gas"] for job in told["jobs"]) == told["totals"]["gas"]
    for stage in told["jobs"][0]["gas_by_stage"]:
        by_row = sum(row["gas"]["total"] for row in rows if row["stage"] == stage)
        assert by_row == sum(job["gas_by_stage"][stage] for job in told["jobs"])
    for row in rows:
        parts = row["calldata"]["total"] + row["execution"]["total"]
        assert TRANSACTION_GAS * row["moves"] + parts == row["gas"]["total"]
    assert {"open_job", "commit", "descend", "settle", "collect"} <= {row["call"] for row in rows}


def test_the_files_say_what_was_printed(ran: Ran) -> None:
    """The CSV tables hold the numbers of the JSON object, and no file is left half written."""
    assert set(ran.files) == {"strategies.csv", "gas.csv", "jobs.csv"}
    strategies = [{key: str(cell) for key, cell in row.items()} for row in ran.told["strategies"]]
    assert ran.table("strategies.csv") == strategies
    for line, row in zip(ran.table("gas.csv"), ran.told["gas"], strict=True):
        assert (line["stage"], line["call"], line["moves"]) == (
            row["stage"],
            row["call"],
            str(row["moves"]),
        )
        assert line["gas_median"] == str(row["gas"]["median"])
        assert line["calldata_maximum"] == str(row["calldata"]["maximum"])
    for line, job in zip(ran.table("jobs.csv"), ran.told["jobs"], strict=True):
        assert line["providers"].split() == [entry["provider"] for entry in job["entries"]]
        assert line["gas"] == str(job["gas"])
        assert line["fees_wei"] == str(job["flows"]["fees_wei"])


def test_the_same_command_gives_the_same_bytes(ran: Ran, tmp_path: Path) -> None:
    """All that is printed and written is a function of the options; the seed is one of them."""
    assert run_market(1, tmp_path / "again") == ran
    other = run_market(2, tmp_path / "other")
    assert other.status == 0
    for name in ran.files:
        assert other.files[name] != ran.files[name]


def test_people_get_two_tables() -> None:
    """Without --json there are tables by strategy and by stage and call, and nothing is cut off."""
    ran = run("--jobs", "1", "--mix", "honest=1,lazy=1", *LENGTH)
    assert (ran.status, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert any(line.startswith("honest ") for line in lines)
    assert any(line.startswith("lazy ") for line in lines)
    assert any(line.split()[:2] == ["history", "descend"] for line in lines)
    assert "…" not in ran.stdout
    assert ran.stdout.rstrip().endswith("all accounts add up")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mix", "honset=2"], "unknown strategy 'honset'; did you mean 'honest'?"),
        (["--providers", "7"], "has 6 providers, not 7; change a count or --providers"),
        (["--mix", "honest=1"], "a market has at least 2 providers, not 1"),
        (["--jobs", "0"], "--jobs 0 is not a positive number"),
        (["--seed", "-1"], "-1 is not in the range 0<=x<="),
        (["--steps", "0"], "--steps 0 is not a positive number"),
        (["--mix", "honest=40"], "32 accounts; 40 providers, a client and a verifier need 42"),
        (["--jobs", "many"], "'many' is not a valid integer"),
        (["--job", "3"], "unknown option '--job'; did you mean '--jobs'?"),
        (["--program", "mpl"], "did you mean 'mlp'?"),
    ],
)
def test_what_makes_no_sense_is_refused_on_one_line(arguments: list[str], message: str) -> None:
    """A bad option ends with status 2, nothing on stdout and one line of advice on stderr."""
    ran = run(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert ran.stderr.startswith("moot: ")
    assert ran.stderr.count("\n") == 1


def test_the_help_names_every_trick() -> None:
    """Whoever asks is told all tricks; the cheats are those of `moot dispute`."""
    told = "".join(run("--help").stdout.split())
    assert all(name in told for name in TRICKS)


def test_a_refused_command_leaves_no_files(tmp_path: Path) -> None:
    """What is refused before the market opens does not touch the output directory."""
    ran = run("--jobs", "0", "-o", str(tmp_path / "tables"))
    assert ran.status == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("names", [CHEATS, TRICKS], ids=["cheats", "tricks"])
def test_every_strategy_can_be_in_a_market(names: Iterable[str], tmp_path: Path) -> None:
    """With all cheats, or all tricks, no honest provider is slashed, and the money adds up."""
    mix = ",".join(["honest=4", *(f"{name}=1" for name in names)])
    ran = run("--jobs", "30", "--mix", mix, *LENGTH, "--json", output=tmp_path)
    honest = next(row for row in ran.told["strategies"] if row["strategy"] == "honest")
    assert honest["jobs"] == honest["won"] == honest["right"] > 0
    assert ran.told["conservation"]["sum_wei"] == 0
    assert all(row["jobs"] > 0 for row in ran.told["strategies"])
