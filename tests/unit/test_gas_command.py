"""`moot gas`: exit codes, and what it prints."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moot.command.gas import SNAPSHOT
from moot.command.main import cli
from moot.offchain.errors import UsageError
from moot.sim.chains.files import list_chains
from moot.sim.gas.snapshot import NAME, read

CHEAP = ("--scenario", "ending-clock")


def run(*args: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["gas", *args], standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_and_the_snapshot_agree_on_a_name() -> None:
    """The default of the command, which imports nothing, is the snapshot's own."""
    assert SNAPSHOT == NAME


def test_check_passes_on_what_was_just_written(folder: Path) -> None:
    """Nothing is printed then, and `diff` says so."""
    assert not run("report", *CHEAP, "--write", "--summary").return_value
    assert (folder / NAME).exists()
    checked = run("check", *CHEAP)
    assert (checked.return_value, checked.output) == (0, "")
    assert "nothing has changed" in run("diff", *CHEAP).output


def test_check_fails_with_one_line_a_deviation(folder: Path) -> None:
    """One unit of gas is one line and exit code 1, also for `diff --json` and `check --json`."""
    run("report", *CHEAP, "--write", "--summary")
    path = folder / NAME
    (line,) = [line for line in read(path) if line.call == "payout.settle"]
    text = path.read_text()
    path.write_text(text.replace(f" {line.median}", f" {line.median - 1}"))
    checked = run("check", *CHEAP)
    assert checked.return_value == 1
    assert len(checked.output.splitlines()) == 1
    assert checked.output.startswith("ending-clock payout.settle: ")
    assert "median +1 gas" in checked.output
    assert "payout.settle" in run("diff", NAME, *CHEAP).output
    for verb in ("check", "diff"):
        (change,) = json.loads(run(verb, *CHEAP, "--json").output)["changes"]
        assert change["after"]["median"] == change["before"]["median"] + 1


def test_writing_a_part_keeps_the_rest(folder: Path) -> None:
    """Other scenarios' lines stay as they are."""
    (folder / NAME).write_text("ending-sink leaf.leaf 1 2 3 4\n")
    run("report", *CHEAP, "--write", "--summary")
    assert {line.scenario for line in read(folder / NAME)} == {"ending-sink", "ending-clock"}


def test_one_scenario_is_one_object(folder: Path) -> None:
    """With several it is a list of them; Hardhat's file has the same calls."""
    figures = json.loads(run("report", *CHEAP, "--json", "--hardhat", "stats.json").output)
    stats = json.loads((folder / "stats.json").read_text())
    functions = stats["contracts"]["contracts/source/referee.vy:referee"]["functions"]
    assert functions["timeout"]["max"] == figures["by_call"]["timeout"]
    both = json.loads(run("report", *CHEAP, "--scenario", "ending-sink", "--json").output)
    assert both["scenarios"][0] == figures
    assert both["scenarios"][1]["scenario"] == "ending-sink"


def test_the_reference_has_the_mean_of_the_fused_multiply_add(folder: Path) -> None:
    """And all other figures that it is asked for."""
    del folder
    figures = json.loads(run("report", "--scenario", "reference", "--json").output)
    assert figures.keys() >= {
        *("total_gas", "halvings", "gas_per_halving_rounds", "leaf_gas"),
        *("by_phase", "by_call", "fma_gas_mean"),
    }


def test_opcodes_add_up_to_the_calls() -> None:
    """With --opcodes each call has its parts, and the tables show them."""
    figures = json.loads(run("report", *CHEAP, "--opcodes", "--json").output)
    totals = {row["call"]: sum(row["parts"].values()) for row in figures["by_opcode"]}
    assert totals == figures["by_call"] | {"open_job": figures["open_job_gas"]}
    shown = run("report", *CHEAP, "--opcodes").output
    assert "storage" in shown
    assert "ending-clock, payout" in shown


def test_chains_are_told_beside_each_other() -> None:
    """`--chain` says what the same calls cost elsewhere, at the file's prices or at others."""
    names = ("--chain", "l1-prague", "--chain", "op-mainnet")
    entry = json.loads(run("report", *CHEAP, *names, "--json").output)
    prague, rollup = entry["chains"]
    assert prague["gas"] == rollup["gas"] == entry["total_gas"]
    assert prague["data_eth"] == 0 < rollup["data_eth"]
    dear = ("--base-fee", "41", "--eth-price", "1000")
    twice = json.loads(run("report", *CHEAP, *names, *dear, "--json").output)["chains"]
    assert twice[0]["eth"] == pytest.approx(2 * prague["eth"])
    assert twice[0]["fiat"] == pytest.approx(1000 * twice[0]["eth"])
    assert twice[1]["execution_eth"] == rollup["execution_eth"]
    shown = run("report", *CHEAP, *names).output
    assert "op-mainnet" in shown
    assert "outlast" in shown
    with pytest.raises(UsageError, match="did you mean 'op-mainnet'"):
        run("report", *CHEAP, "--chain", "op-mainet")


def test_chains_are_listed() -> None:
    """`moot gas chains` lists every file that comes with us."""
    listed = json.loads(run("chains", "--json").output)["chains"]
    assert {it["chain"] for it in listed} == set(list_chains())
    assert all(it["chain"] in run("chains").output for it in listed)
