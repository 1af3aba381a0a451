"""`moot market`, played on a real chain: the money, the gas table, the files and the refusals."""

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
from tests.end_to_end.command import complaint, moot

JOBS = 4
MIX = "honest=2,lazy=1,wrong-output=1,false-flag=1"
LENGTH = ("--steps", "4", "--checkpoint-every", "2")
TIMES = {"seconds", "peak_mib"}
"""What is told of a run that is not the same the next time."""


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
        return list(csv.DictReader(self.files[f"{name}.csv"].decode().splitlines()))


def run(*arguments: str, output: Path | None = None) -> Ran:
    """Run `moot market` in this process."""
    files = ("-o", str(output)) if output else ()
    done = moot("market", *arguments, *files)
    left = {path.name: path.read_bytes() for path in output.iterdir()} if output else {}
    return Ran(done.status, done.stdout, done.stderr, left)


def run_market(seed: int, output: Path, jobs: int = JOBS) -> Ran:
    """Run the market of these tests."""
    arguments = ("--jobs", str(jobs), "--mix", MIX, "--seed", str(seed), *LENGTH)
    return run(*arguments, "--json", output=output)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One market, run once."""
    return run_market(8, tmp_path_factory.mktemp("market") / "new" / "tables")


def test_it_prints_one_object_and_nothing_else(ran: Ran) -> None:
    """Where stderr is not a terminal there is no bar on it, and stdout is one JSON object."""
    assert (ran.status, ran.stderr) == (0, "")
    assert {"run", "strategies", "accounts", "calls", "compared_with_torch"} <= set(ran.told)
    assert ran.told["run"]["jobs"] == ran.told["jobs"] == JOBS
    assert ran.told["invariant_violations"] == ran.told["wrong_verdicts"] == 0


def test_the_honest_win_what_the_dishonest_lose(ran: Ran) -> None:
    """No honest account is slashed, all of them gain after fees, and lying to them never pays."""
    rows = ran.table("accounts")
    honest = [row for row in rows if row["strategy"] == "honest"]
    assert honest
    assert all(row["fate"] == "won" and int(row["profit_wei"]) > 0 for row in honest)
    watched = {row["job"] for row in honest}
    lies = [row for row in rows if row["is_right"] == "false" and row["job"] in watched]
    assert lies
    assert all(row["fate"] == "slashed" and int(row["profit_wei"]) < 0 for row in lies)


def test_value_is_conserved_with_fees(ran: Ran) -> None:
    """What left the accounts was burned or paid for gas, job by job, to the wei."""
    burned = {row["job"]: int(row["burned_gwei"]) * 10**9 for row in ran.table("jobs")}
    for job, burned_wei in burned.items():
        accounts = [row for row in ran.table("accounts") if row["job"] == job]
        fees_wei = sum(int(row["fees_wei"]) for row in accounts)
        assert fees_wei > 0
        assert sum(int(row["profit_wei"]) for row in accounts) == -burned_wei - fees_wei
        calls = [row for row in ran.table("calls") if row["job"] == job]
        assert sum(int(row["fee_wei"]) for row in calls) == fees_wei
    assert sum(burned.values()) > 0


def test_the_gas_table_holds_every_call(ran: Ran) -> None:
    """The rows sum to the jobs, and calldata and execution make up the gas."""
    rows, calls, jobs = ran.told["calls"], ran.table("calls"), ran.table("jobs")
    assert sum(row["moves"] for row in rows) == len(calls)
    assert sum(row["gas"]["total"] for row in rows) == sum(int(row["gas"]) for row in calls)
    assert sum(int(job["gas"]) for job in jobs) == sum(int(row["gas"]) for row in calls)
    for row in rows:
        parts = row["calldata"]["total"] + row["execution"]["total"]
        assert TRANSACTION_GAS * row["moves"] + parts == row["gas"]["total"]
    assert {"open_job", "commit", "descend", "settle", "collect"} <= {row["call"] for row in rows}


def test_the_files_say_what_was_printed(ran: Ran) -> None:
    """What is told of accounts, strategy by strategy, is the sum of the table's rows."""
    assert {"accounts.csv", "calls.csv", "jobs.csv", "agents.csv"} <= set(ran.files)
    told = {row["strategy"]: row for row in ran.told["accounts"]}
    assert set(told) == {"honest", "lazy", "wrong-output", "false-flag", "client", "verifier"}
    for name, row in told.items():
        own = [it for it in ran.table("accounts") if name in (it["strategy"], it["account"])]
        assert row["jobs"] == len(own)
        assert row["profit_wei"] == sum(int(it["profit_wei"]) for it in own)
        assert row["won"] == sum(it["fate"] == "won" for it in own)


def test_the_same_command_gives_the_same_bytes(ran: Ran, tmp_path: Path) -> None:
    """All that is written is a function of the options; the seed is one of them."""
    again, other = run_market(8, tmp_path / "again"), run_market(9, tmp_path / "other", jobs=1)
    assert again.files == ran.files
    assert {k: v for k, v in again.told.items() if k not in TIMES} == {
        k: v for k, v in ran.told.items() if k not in TIMES
    }
    assert other.status == 0
    for name in ("accounts.csv", "calls.csv", "jobs.csv"):
        assert other.files[name] != ran.files[name]


def test_people_get_tables() -> None:
    """Without --json there are tables by strategy and by stage and call, and nothing is cut off."""
    ran = run("--jobs", "1", "--mix", "honest=1,lazy=1", *LENGTH)
    assert (ran.status, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert sum(line.startswith("lazy ") for line in lines) == 1
    assert any(line.split()[:2] == ["provider", "honest"] for line in lines)
    assert any(line.split()[:2] == ["history", "descend"] for line in lines)
    assert "…" not in ran.stdout
    assert ran.stdout.rstrip().endswith("every account has what the rules pay, to the wei")


def test_options_change_any_configuration(tmp_path: Path) -> None:
    """Options are keys of whichever CONFIG is named, and what is not given stays as it says."""
    words = ("weak-audit", "--jobs", "60", "--mix", "honest=2,sybil=1", "--seed", "5")
    words += ("--set", "program.steps=9", "--steps", "6", "--set", "bond.eth=2.0")
    ran = run(*words, "--json", output=tmp_path / "out")
    assert ran.status == 0
    config = json.loads(ran.files["run.json"])["config"]
    assert (config["jobs"], config["seed"], config["bond"]["eth"]) == (60, 5, 2.0)
    assert (config["program"]["steps"], config["program"]["checkpoint_every"]) == (6, 3)
    assert config["program"]["name"] == "mlp"
    assert config["fidelity"] == "modelled"
    assert [(it["strategy"], it["count"]) for it in config["providers"]] == [
        ("honest", 2),
        ("sybil", 1),
    ]
    assert config["audit"] == {"name": "constant", "rate": 0.01}
    assert ran.files["accounts.csv"].count(b"\n") == 1, "nothing was played"


def test_a_node_is_not_named_in_results(tmp_path: Path) -> None:
    """A node that does not answer is one line, and its address, which may hold a key, stays out."""
    url = "http://127.0.0.1:9/secret"
    ran = run("--jobs", "1", *LENGTH, "--chain", url, output=tmp_path / "out")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.startswith("moot: the run failed: ")
    assert ran.stderr.count("\n") == 1
    told = json.loads(ran.files["run.json"])
    assert told["config"]["chain"]["url"] == "a node"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mix", "honset=2"], "unknown strategy of providers 'honset'; did you mean 'honest'?"),
        (["--mix", MIX, "--providers", "7"], "has 5 providers, not 7"),
        (["--providers", "7"], "give a --mix"),
        (["--mix", "honest=1"], "each job goes to 2 providers, and there are 1"),
        (["--jobs", "0"], "--jobs 0 is not a positive number"),
        (["--seed", "-1"], "-1 is not in the range 0<=x<="),
        (["--steps", "0"], "--steps 0 is not a positive number"),
        (["--jobs", "many"], "'many' is not a valid integer"),
        (["--job", "3"], "unknown option '--job'; did you mean '--jobs'?"),
        (["--program", "mpl"], "did you mean 'mlp'?"),
        (["--arithmetic", "logged"], "choose ordered, exact, hopper or ampere"),
        (["--set", "program.inference=true"], "inference is one step; set program.steps = 1"),
        (["--set", "bond.eth=1,2"], "`moot sweep` runs them all"),
    ],
)
def test_what_makes_no_sense_is_refused_on_one_line(arguments: list[str], message: str) -> None:
    """A bad option ends with status 2, nothing on stdout and one line of advice on stderr."""
    ran = run(*arguments)
    assert (ran.status, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert ran.stderr.startswith("moot: ")
    assert ran.stderr.count("\n") == 1


def test_a_bond_that_the_contract_refuses_is_said() -> None:
    """A market may be simulated with any bond, and played with those that the contract takes."""
    ran = run("--jobs", "1", *LENGTH, "--set", "bond.eth=0.05")
    assert ran.status == 1
    assert "the contract takes bonds of 0.2 ETH and more" in ran.stderr


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
    mix = ",".join(["honest=8", *(f"{name}=1" for name in names)])
    ran = run("--jobs", "40", "--mix", mix, *LENGTH, "--json", output=tmp_path / "out")
    assert ran.status == 0
    honest = next(row for row in ran.told["accounts"] if row["strategy"] == "honest")
    assert honest["jobs"] == honest["won"] == honest["right"] > 0
    assert len(ran.told["accounts"]) > len(list(names))


TRICK = '''
"""A trick of a user's."""

from moot.sim.tricks.base import Trick


class Late(Trick):
    """Lies, and says so in no other way than others do."""

    runs = ("wrong-output",)
'''


def test_a_trick_of_a_users_file_is_played_and_is_in_no_table(tmp_path: Path) -> None:
    """A market plays it as any strategy and takes its bond; a table of cases does not know it."""
    path = tmp_path / "late.py"
    path.write_text(TRICK)
    words = ("--jobs", "1", "--mix", f"honest=1,{path}:Late=1", *LENGTH)
    told = run(*words, "--json").told
    assert told["run"]["caught"] == 1
    assert [it["slashed"] for it in told["accounts"] if it["strategy"] == f"{path}:Late"] == [1]
    line = complaint(moot("market", *words, "--set", "fidelity=modelled"), status=2)
    assert f"{path}:Late is a trick or a cheat" in line
    assert 'fidelity = "played"' in line
