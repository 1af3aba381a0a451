"""The table of conducts: a row, and a module if it calls otherwise, is all that one takes."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from moot.offchain.errors import UsageError
from moot.offchain.providers.catalogue import CHEATS
from moot.sim.economy.receipts import WON
from moot.sim.economy.streams import open_conduct_stream
from moot.sim.strategies import STRATEGIES, TRICKS, Conduct, find_conduct
from moot.sim.tricks.base import Trick
from tests.case_helpers import run_case

TRICK = '''
"""A trick that repeats itself."""

from collections.abc import Iterator

from moot.offchain.disputes.play.actors import View
from moot.offchain.disputes.referee.port import Call
from moot.sim.tricks.base import Trick


class Stutterer(Trick):
    """Lies, and shows its claims twice."""

    def reveal(self, view: View) -> Iterator[Call]:
        """Show each claim, and show it again."""
        for call in super().reveal(view):
            yield call
            yield call
'''


def test_a_conduct_is_one_file_and_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new row with a new module is played in a market, by the accounts and runs that it says."""
    (tmp_path / "stuttering_trick.py").write_text(TRICK)
    monkeypatch.syspath_prepend(tmp_path)
    row = Conduct(
        "lies twice", ("wrong-output", "honest"), copies=2, trick="stuttering_trick:Stutterer"
    )
    monkeypatch.setitem(STRATEGIES, "stutterer", row)  # type: ignore[arg-type] # it is a dict
    for number in range(2):
        checked = run_case("honest", "stutterer", number=number)
        own = checked.list_accounts("stutterer")
        kinds = [str(row.behaviour).partition(":")[0] for row in own]
        assert kinds == ["wrong-output", "wrong-output", "honest", "honest"]
        assert own[0].behaviour == own[1].behaviour
        assert checked.case.outcome == "right"
        assert [row.fate for row in own[2:]] == [WON, WON]


def test_every_cheat_and_every_trick_is_a_conduct() -> None:
    """All cheats that a provider can have, and all tricks, can be in a market, by other names."""
    assert set(STRATEGIES) == {"honest", "watcher", *CHEATS, *TRICKS}
    assert len(STRATEGIES) == 2 + len(CHEATS) + len(TRICKS)


def test_a_trick_is_a_class_in_a_file_of_a_users(tmp_path: Path) -> None:
    """A class that no row names is played, by the accounts and runs that it says itself."""
    path = tmp_path / "own_trick.py"
    path.write_text(f'{TRICK}\n    runs = ("wrong-output", "honest")\n')
    name = f"{path}:Stutterer"
    for number in range(2):
        checked = run_case("honest", name, number=number)
        kinds = [str(row.behaviour).partition(":")[0] for row in checked.list_accounts(name)]
        assert kinds == ["wrong-output", "honest"]
        assert checked.case.outcome == "right"


@pytest.mark.parametrize(
    ("rest", "says"), [(":View", "has no dataclass"), (":None", "has no"), (":Odd", "is no trick")]
)
def test_what_is_no_trick_is_refused(tmp_path: Path, rest: str, says: str) -> None:
    """A class that is neither a trick nor a cheat is refused in one line."""
    path = tmp_path / "own_trick.py"
    path.write_text(
        f"{TRICK}\nfrom dataclasses import dataclass\n@dataclass\nclass Odd:\n    pass\n"
    )
    with pytest.raises(UsageError, match=says):
        find_conduct(f"{path}{rest}")


@pytest.mark.parametrize("name", [name for name, it in TRICKS.items() if it.trick])
def test_rows_name_schemes(name: str) -> None:
    """What a row names is a trick, in a module called as the strategy is."""
    module, _, _ = TRICKS[name].trick.partition(":")
    assert module == f"moot.sim.tricks.{name.replace('-', '_')}"
    assert issubclass(pkgutil.resolve_name(TRICKS[name].trick), Trick)


def test_the_table_is_read_in_no_time() -> None:
    """The help of the command needs the table, which imports neither numpy nor any trick."""
    code = (
        "import moot.sim.strategies, sys; "
        "print(*sorted({'numpy', 'torch', 'web3', 'moot.sim.tricks.base'} & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_a_conduct_draws_does_not_depend_on_the_folder_of_its_file() -> None:
    """The same file elsewhere draws the same; another class, or another place, draws anew."""
    one, other = (open_conduct_stream(f"{it}/late.py:Late", 0, 1).random() for it in ("/a", "b/c"))
    assert one == other == open_conduct_stream("late.py:Late", 0, 1).random()
    assert one != open_conduct_stream("late.py:Later", 0, 1).random()
    assert one != open_conduct_stream("late.py:Late", 1, 1).random()
