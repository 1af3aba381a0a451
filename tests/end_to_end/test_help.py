"""The texts that a newcomer reads: the help, the errors, and the report of a dispute."""

import json
import re

import pytest

from moot.offchain.programs.catalogue import NAMES, SIZES
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.gas.results import ABOUT
from moot.sim.strategies import TRICKS
from tests.end_to_end.command import moot

GROUPS = ((), ("bench",), ("gas",), ("keys",), ("program",))
DISPUTE = ("dispute", "--program", "mlp", "--steps", "2", "--checkpoint-every", "1")


@pytest.mark.parametrize("group", GROUPS)
def test_groups_alone_print_their_help(group: tuple[str, ...]) -> None:
    """A command that needs another one after it says which there are, and nothing has failed."""
    alone, asked = moot(*group), moot(*group, "--help")
    assert (alone.status, alone.stderr) == (0, "")
    assert alone.stdout == asked.stdout
    assert alone.stdout.startswith(" ".join(("Usage: moot", *group)))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench", "stpe"), "did you mean 'step'?"),
        (("bench", "foo"), "choose one of device, dispute, hash, ops, parties, rulings, step"),
        (("gas", "reprot"), "did you mean 'report'?"),
        (("program", "shwo"), "did you mean 'show'?"),
        (("dipsute",), "did you mean 'dispute'?"),
    ],
)
def test_unknown_commands_are_answered_by_a_suggestion(words: tuple[str, ...], says: str) -> None:
    """A command that does not exist is answered by what was meant, or by all that there are."""
    done = moot(*words)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("moot: unknown command of moot")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("group", [*GROUPS, ("provider",)])
def test_groups_say_whole_sentences(group: tuple[str, ...]) -> None:
    """No command's line in the help of its group breaks off."""
    listing = moot(*group, "--help").stdout.partition("\nCommands:\n")[2]
    assert listing
    assert "..." not in listing


def test_scenarios_of_gas_are_listed() -> None:
    """A command lists all scenarios, and helps and refusals speak of that command."""
    listed = moot("gas", "scenarios").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(ABOUT)
    assert json.loads(moot("gas", "scenarios", "--json").stdout)["scenarios"].keys() == ABOUT.keys()
    for command in ("report", "check", "diff"):
        assert "`moot gas scenarios`" in " ".join(moot("gas", command, "--help").stdout.split())
        done = moot("gas", command, "--scenario", "qqqq")
        assert (done.status, "`moot gas scenarios` lists them" in done.stderr) == (2, True)
    for command in ("check", "diff"):
        assert "gas-snapshot.txt" in moot("gas", command, "--help").stdout


def told(*words: str) -> set[str]:
    """Return the words of a help, those that were broken at a hyphen put together."""
    text = re.sub(r"-\n\s+", "-", moot(*words, "--help").stdout)
    return set(re.findall(r"[\w-]+", text))


def test_helps_name_everything_that_can_be_chosen() -> None:
    """Where a program, a size, a cheat or a trick can be chosen, the help has all of them."""
    for words in (("dispute",), ("market",), ("program", "show")):
        assert {*NAMES, *SIZES} <= told(*words)
    assert {*CHEATS, *(key for it in CHEATS.values() for key in it.settings)} <= told("dispute")
    assert {*CHEATS, *TRICKS} <= told("market")
    for words in (("dispute",), ("program", "show"), ("program", "publish")):
        assert "--inference" in told(*words)


def test_long_lists_say_what_can_be_chosen() -> None:
    """Where there are too many choices to list, their number says of what."""
    done = moot(*DISPUTE, "--cheat", "wrong-output:operator=qqqqqqqq")
    assert done.status == 2
    assert re.search(r"there are \d+ operators to choose from", done.stderr)


def test_disputes_say_everything_that_their_help_promises() -> None:
    """The cheat that was drawn, every transaction with its gas, and who was paid, in both forms."""
    plain, told = moot(*DISPUTE), json.loads(moot(*DISPUTE, "--json").stdout)
    cheat = told["behaviours"]["wrong-output-1"]
    assert told["behaviours"]["honest-1"] == "honest"
    assert f"cheat: wrong-output-1 played {cheat}\n" in plain.stdout
    assert set(CHEATS["wrong-output"].settings) == set(re.findall(r"(\w+)=", cheat))
    rows = [re.findall(r"[\w-]+(?:,\d+)*", line) for line in plain.stdout.splitlines()]
    for move in told["transactions"]:
        cells = [move["phase"], move["player"], move["call"], f"{move['calldata_bytes']:,}"]
        assert [str(move["block"]), *cells, f"{move['gas_used']:,}"] in rows
        assert re.fullmatch(r"0x[0-9a-f]{64}", move["transaction"])
    assert sum(move["gas_used"] for move in told["transactions"]) == told["gas"]["total"]
    for name, wei in told["ledger"]["by_account"].items():
        assert re.search(rf"{name} +│ +{re.escape(f'{wei / 10**18:+.6f}')}", plain.stdout)
    again = json.loads(moot(*DISPUTE, "--cheat", cheat, "--json").stdout)
    assert again["roots"] == told["roots"]


@pytest.mark.parametrize(
    "words",
    [
        *(("dispute",), ("program", "show"), ("program", "publish"), ("client", "post")),
        *(("provider", "run"), ("check-strategy",), ("market",), ("testnet", "up")),
    ],
)
def test_code_that_runs_here_is_said_to(words: tuple[str, ...]) -> None:
    """Where a path to a file of code is accepted, the help says that the code runs here."""
    text = " ".join(moot(*words, "--help").stdout.split())
    assert "on this machine, with all that you may do" in re.sub(r"- ", "-", text)
