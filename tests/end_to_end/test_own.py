"""A strategy and a rule of a user's own: each is one file, shown in market.md, and used."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from moot.sim.economy.config import GWEI
from tests.end_to_end.command import complaint, moot

ROOT = Path(__file__).parents[2]
STRATEGY = "examples/own_strategy.py:OnceBitten"
RULE = "examples/own_mechanism.py:BreakEvenBond"

BROKEN = """
from dataclasses import dataclass
from moot.sim.economy.strategies.base import Strategy

@dataclass
class Speechless(Strategy):
    def decide(self, job, own, stream):
        return "lzay"
"""


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name files as the page does."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", [STRATEGY, RULE])
def test_the_page_shows_the_files(name: str) -> None:
    """What docs/reference/market.md shows is what is run here, to the letter."""
    text = (ROOT / name.partition(":")[0]).read_text()
    assert f"```python\n{text}```" in (ROOT / "docs" / "reference" / "market.md").read_text()


def test_own_strategy_is_a_key_of_a_configuration(tmp_path: Path) -> None:
    """Agents of a user's strategy take part, and do what their parameter says."""
    where = f"providers.{STRATEGY}"
    words = ("--jobs", "300", "--set", f"{where}.count=4", "--set", f"{where}.rate=0.5")
    done = moot("market", "baseline", *words, "-o", str(tmp_path / "out"), "--json")
    assert done.status == 0, done.stderr
    (row,) = (row for row in json.loads(done.stdout)["strategies"] if row["strategy"] == STRATEGY)
    assert row["agents"] == 4
    assert row["forfeits"] == 0
    assert 0 < row["slashed"] <= 4  # once bitten, it lies no more
    assert row["slashed"] <= row["cheated"] < row["jobs"]
    assert (
        STRATEGY.partition(":")[0]
        in json.loads((tmp_path / "out" / "run.json").read_text())["files"]
    )


def test_own_rule_is_a_value_of_a_configuration(tmp_path: Path) -> None:
    """Every job has the bond that a user's rule asks for; the old rule's parameters are gone."""
    words = ("--jobs", "50", "--set", "bond.margin=3", "--set", f"bond.name={RULE}")
    done = moot("market", "baseline", *words, "-o", str(tmp_path / "out"), "--json")
    assert done.status == 0, done.stderr
    bonds = pq.read_table(tmp_path / "out" / "jobs.parquet")["bond_gwei"].to_pylist()
    assert set(bonds) == {round(3 * 0.02 / 0.1 * GWEI)}


def test_own_strategy_passes_the_kit() -> None:
    """The strategy of the page does all that is asked, and the command says so in both forms."""
    plain, told = moot("check-strategy", STRATEGY), moot("check-strategy", STRATEGY, "--json")
    findings = json.loads(told.stdout)["findings"]
    assert (plain.status, told.status) == (0, 0)
    assert all(finding["is_met"] for finding in findings)
    for finding in findings:
        assert f"yes  {finding['check']}" in plain.stdout


def test_broken_strategy_is_found_out(tmp_path: Path) -> None:
    """A strategy that answers what is no conduct fails the kit, and is told what it answered."""
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    done = moot("check-strategy", f"{file}:Speechless")
    assert done.status == 1
    assert "no   it answers what it is asked" in done.stdout
    assert "'lzay', which is no conduct" in " ".join(done.stdout.split())


CHEAT = """
from dataclasses import dataclass
import moot

@dataclass(eq=False)
class Doubled(moot.Behaviour):
    step: int = 1
    def patch(self, step, state):
        print("noise")
        return {0: lambda output: output * 2} if step == self.step else None
"""


@pytest.mark.slow
def test_own_cheat_is_tried_and_disputed(tmp_path: Path) -> None:
    """A cheat in a file passes the kit, and a dispute of it says where it lied."""
    file = tmp_path / "own.py"
    file.write_text(CHEAT)
    tried = moot("check-cheat", f"{file}:Doubled", "--json")
    assert tried.status == 0, tried.stdout
    assert all(finding["is_met"] for finding in json.loads(tried.stdout)["findings"])
    words = ("--program", "mlp", "--steps", "4", "--checkpoint-every", "2")
    done = moot("dispute", *words, "--cheat", f"{file}:Doubled:step=2", "--json")
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"]["losers"] == ["doubled-1"]
    assert told["behaviours"]["doubled-1"] == "doubled:step=2"
    assert told["located"]["step"] == 2
    line = complaint(moot("dispute", *words, "--cheat", f"{file}:Halved"), status=2)
    assert "has no dataclass Halved" in line
    line = complaint(moot("check-cheat", "wrong-output"), status=2)
    assert "write path/to/file.py:Class" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("examples/own_strategy.py",), "write path/to/file.py:Class"),
        (("examples/own_strategy.py:Once",), "has no dataclass Once"),
        (("docs/nowhere.py:Once",), "there is no Python file docs/nowhere.py"),
        ((RULE,), "is no strategy"),
    ],
)
def test_no_strategy_is_refused_in_a_line(words: tuple[str, ...], says: str) -> None:
    """What is no file, no class or no strategy is refused in one line."""
    assert says in complaint(moot("check-strategy", *words), status=2)


def test_what_a_strategy_prints_is_not_the_result(tmp_path: Path) -> None:
    """A strategy may print what it likes: the JSON stays JSON, and its words are beside it."""
    path = tmp_path / "loud.py"
    path.write_text(
        "from dataclasses import dataclass\n"
        "from moot.sim.economy.strategies.base import Strategy\n"
        "print('hello')\n"
        "@dataclass\n"
        "class Loud(Strategy):\n"
        "    def decide(self, job, own, stream):\n"
        "        print('listen')\n"
        "        return 'honest'\n"
    )
    setting = f"providers.{path}:Loud.count=2"
    for words, said in (
        (("market", "baseline", "--jobs", "40", "--set", setting, "--json"), ("hello", "listen")),
        (("check-strategy", f"{path}:Loud", "--json"), ("listen",)),
    ):
        done = moot(*words)
        assert done.status == 0
        assert isinstance(json.loads(done.stdout), dict)
        assert all(word in done.stderr for word in said)
