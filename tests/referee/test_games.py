from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.model import tournament, verdicts
from moot.contracts.model.leaf import compute_leaf
from moot.contracts.model.ledger import calculate_debt, close_job
from moot.contracts.model.turns import Turn
from moot.contracts.model.types import Job, Store
from moot.contracts.reasons import Ending, Outcome
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.sim.synthetic.products import Lie
from tests.referee.games import describe, play_evm, play_model, split
from tests.referee.games_seats import Tally
from tests.referee.games_stories import HONEST, LIES, Story
from tests.referee.games_truth import find_truth

WIDE = (EXACT, HOPPER, AMPERE)
"""The arithmetics whose accumulators are wider than elements, and have contracts of their own."""


def test_the_truth_wins_many_games() -> None:
    """No verdict, winner, payment or duration is wrong, and no wei stays, whatever is tried."""
    tally = play_model(range(500))
    assert not tally.wrong
    assert tally.locked_wei == 0
    manners = {"never moves", "falls silent", "never reveals"}
    assert set(tally.cheats) == {HONEST, *LIES, *manners}
    assert set(tally.lost) >= {*LIES, "never moves", "falls silent"}
    assert HONEST not in tally.lost
    assert len(LIES) >= 12
    decided = {ending.split(",")[0] for ending in tally.endings}
    assert decided == {"clock", "sink", "scalar", "verifier"}
    assert {"scalar, neither", "verifier, neither", "clock, undecided"} <= set(tally.endings)
    assert set(tally.statuses) == {"won", "empty"}
    assert tally.games > tally.jobs
    assert tally.duels > tally.games // 4
    assert tally.late > tally.jobs // 20


def test_the_bytecode_plays_the_same_games() -> None:
    """The contract answers every call of some of them as the model does, to the wei."""
    tally = play_evm(range(8))
    assert not tally.wrong
    assert tally == play_model(range(8))


@pytest.mark.parametrize("arithmetic", WIDE, ids=str)
def test_games_over_wide_accumulators_end_as_they_should(arithmetic: Arithmetic) -> None:
    """A fold has a step that finishes what it has left: nothing else differs."""
    tally = play_model(range(120), arithmetic)
    assert not tally.wrong
    assert tally.locked_wei == 0
    few = play_evm(range(6), arithmetic)
    assert not few.wrong
    assert few == play_model(range(6), arithmetic)


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", [ORDERED, *WIDE], ids=str)
def test_the_bytecode_plays_many_of_them(arithmetic: Arithmetic) -> None:
    """A thousand jobs on the bytecode and the model end as their members' stories say."""
    tally = play_evm(range(1_000), arithmetic)
    assert not tally.wrong
    assert tally.locked_wei == 0


def test_games_follow_from_their_numbers() -> None:
    """Divided into pieces, a run comes to the same, to the byte; other numbers come to another."""
    pieces = list(split(90, 60, 25))
    assert [len(piece) for piece in pieces] == [25, 25, 10]
    divided = Tally()
    for piece in pieces:
        divided.add(play_model(piece))
    lines = {describe("model", 90, tally, 0) for tally in (divided, play_model(range(90, 150)))}
    assert len(lines) == 1
    assert describe("model", 90, play_model(range(150, 210)), 0) not in lines


def _is_noticed(what: str) -> bool:
    return any(found.startswith(what) for found in play_model(range(1, 40)).wrong)


def test_wrong_leaves_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the contract computed something else, verdicts and winners would be counted as wrong."""
    monkeypatch.setattr(verdicts, "compute_leaf", lambda *args: compute_leaf(*args) ^ 1)
    assert _is_noticed("verdict")
    assert _is_noticed("winner")


def test_wrong_clocks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a clock defeated the side that is not to move, verdicts would be counted as wrong."""
    end = Turn.end

    def end_wrong(turn: Turn, ending: Ending, outcome: Outcome, computed: int = 0) -> None:
        is_late = ending is Ending.CLOCK and outcome is not Outcome.UNDECIDED
        late = Outcome(1 - outcome) if is_late else outcome
        end(turn, ending, late, computed)

    monkeypatch.setattr(Turn, "end", end_wrong)
    assert _is_noticed("verdict")


def test_wrong_payments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the contract paid a wei too little, that would be counted, and the wei as locked."""
    monkeypatch.setattr(tournament, "calculate_debt", lambda *args: calculate_debt(*args) - 1)
    assert _is_noticed("payment")
    assert play_model(range(1, 3)).locked_wei > 0


def test_wrong_burning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a lost bond were not burned in part, that would be counted, and what is left as locked."""

    def close(store: Store, job_id: int, job: Job, *rest: Any) -> None:
        close_job(store, job_id, replace(job, defeated=0), *rest)

    monkeypatch.setattr(tournament, "close_job", close)
    assert _is_noticed("burning")
    assert play_model(range(1, 3)).locked_wei > 0


def _tell(step: int, operator: int = 2, element: int = 0, term: int = 0, mask: int = 1) -> Story:
    return Story("lie", "sparse", Lie(step, operator, element, term, mask))


@pytest.mark.parametrize(
    ("one", "other", "ending", "outcome", "place"),
    [
        (Story(HONEST, "sparse"), _tell(3, 4, 5, 7), Ending.SCALAR, Outcome.FIRST, (3, 4, 5, 7)),
        (_tell(3, 4, 5, 7), _tell(3, 4, 5, 9, 2), Ending.SCALAR, Outcome.SECOND, (3, 4, 5, 7)),
        (_tell(3, 4, 5, 7), _tell(3, 4, 5, 7, 2), Ending.SCALAR, Outcome.NEITHER, (3, 4, 5, 7)),
        (_tell(3, 4, 5, 7), _tell(3, 3, 6, 7), Ending.SCALAR, Outcome.FIRST, (3, 3, 6, 7)),
        (_tell(3, 4, 5, 7), _tell(4, 2), Ending.SCALAR, Outcome.SECOND, (3, 4, 5, 7)),
        (_tell(3, 8, 5), _tell(3, 8, 6), Ending.SINK, Outcome.NEITHER, (3,)),
    ],
)
def test_stories_part_where_they_say(
    one: Story, other: Story, ending: Ending, outcome: Outcome, place: tuple[int, ...]
) -> None:
    """The truth about two stories is at the first place where one of them has its lie."""
    truth = find_truth(one, other)
    assert (truth.ending, truth.outcome, truth.place) == (ending, outcome, place)
