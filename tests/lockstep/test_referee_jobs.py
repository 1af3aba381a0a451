from typing import Any

import pytest

from contracts.compiler import compile_contract
from contracts.model.types import (
    MAX_BLOCKS,
    MAX_MEMBERS,
    MAX_OPERATORS,
    MAX_SLOTS,
    MAX_STEPS,
    MIN_BOND_WEI,
)
from contracts.reasons import LeafMode, Reason
from offchain.programs.roots import ProgramHeader
from tests.lockstep.claims import cheating
from tests.lockstep.game import SALT, Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds

OUTSIDER = 9

SOUND_TERMS = [
    {"bond_wei": MIN_BOND_WEI},
    {"bond_wei": 2**256 - 1},
    {"operators": MAX_OPERATORS, "state_slots": MAX_SLOTS, "batch_slots": MAX_SLOTS},
    {"operators": 3, "state_slots": 3, "batch_slots": 0},
    {"steps": MAX_STEPS, "checkpoint_every": 1},
    {"steps": MAX_STEPS, "checkpoint_every": MAX_STEPS},
    {"commit_blocks": 1, "reveal_blocks": 1, "clock_blocks": 1, "increment_blocks": 0},
    dict.fromkeys(
        ("commit_blocks", "reveal_blocks", "clock_blocks", "increment_blocks"), MAX_BLOCKS
    ),
    {"leaf_mode": LeafMode.OPERATOR},
]
ABSURD_TERMS = [
    {"state_slots": 0},
    {"operators": MAX_SLOTS + 1, "state_slots": MAX_SLOTS + 1},
    {"batch_slots": MAX_SLOTS + 1},
    {"operators": MAX_OPERATORS + 1},
    {"operators": 2, "state_slots": 3},
    {"steps": 0, "checkpoint_every": 0},
    {"steps": MAX_STEPS + 1},
    {"steps": 2**256 - 1},
    {"steps": 7, "checkpoint_every": 0},
    {"steps": 7, "checkpoint_every": 8},
    {"leaf_mode": 2},
    *({name: 0} for name in ("commit_blocks", "reveal_blocks", "clock_blocks")),
    *({name: MAX_BLOCKS + 1} for name in ("commit_blocks", "reveal_blocks", "clock_blocks")),
    {"clock_blocks": 5, "increment_blocks": 6},
]


@pytest.mark.parametrize("changes", SOUND_TERMS)
def test_sound_terms_open_a_job(referee: Lockstep, changes: dict[str, int]) -> None:
    """Terms on the edge of what is allowed are kept as they are, with the program's root."""
    terms = kinds().terms(**changes)
    (event,) = referee.call("open_job", referee.chain.accounts[0], terms, value_wei=5)
    header = (terms.operators, terms.state_slots, terms.batch_slots)
    assert event.args[2] == ProgramHeader(*header, terms.layout, terms.program_top).root


@pytest.mark.parametrize("changes", ABSURD_TERMS)
def test_absurd_terms_are_refused(referee: Lockstep, changes: dict[str, int]) -> None:
    """Terms beyond what is allowed open no job."""
    refused = referee.refused("open_job", referee.chain.accounts[0], kinds().terms(**changes))
    assert refused == Reason.ABSURD_TERMS


def test_bond_pays_for_a_match(referee: Lockstep) -> None:
    """A bond below the least is refused."""
    terms = kinds().terms(bond_wei=MIN_BOND_WEI - 1)
    refused = referee.refused("open_job", referee.chain.accounts[0], terms)
    assert refused == Reason.BOND_TOO_SMALL


@pytest.fixture
def game(referee: Lockstep) -> Game:
    """A job with one honest and one dishonest provider, who have not joined yet."""
    return Game(referee, kinds(), [honest_kinds(), cheating(kinds(), 1, 6)])


def test_commit_is_in_time_up_to_its_deadline(game: Game) -> None:
    """The last block for joining is the deadline itself."""
    game.referee.mine_to(game.job.commit_deadline)
    game.commit(0)
    member, bond_wei = game.members[1], game.job.terms.bond_wei
    refused = game.referee.refused("commit", member, game.job_id, SALT, value_wei=bond_wei)
    assert refused == Reason.TOO_LATE


@pytest.mark.parametrize("change_wei", [-1, 1])
def test_commit_takes_the_bond_and_nothing_else(game: Game, change_wei: int) -> None:
    """A value other than the bond is refused."""
    value_wei = game.job.terms.bond_wei + change_wei
    refused = game.referee.refused(
        "commit", game.members[0], game.job_id, SALT, value_wei=value_wei
    )
    assert refused == Reason.WRONG_BOND


def test_seats_are_bounded_and_taken_once(referee: Lockstep) -> None:
    """Eight members find a seat, nobody two, and a ninth none."""
    game = Game(referee, kinds(), [], {"commit_blocks": 20})
    accounts, bond_wei = referee.chain.accounts, game.job.terms.bond_wei

    def refuse(account: str) -> str:
        return referee.refused("commit", account, game.job_id, SALT, value_wei=bond_wei)

    for member in accounts[:MAX_MEMBERS]:
        assert len(game.job.members) < 1 or refuse(accounts[0]) == Reason.ALREADY_JOINED
        referee.call("commit", member, game.job_id, SALT, value_wei=bond_wei)
    assert refuse(accounts[0]) == Reason.FULL
    assert refuse(accounts[OUTSIDER]) == Reason.FULL


def test_reveal_is_possible_between_its_deadlines(game: Game) -> None:
    """Claims are shown after the last block for joining, up to the last one for revealing."""
    game.commit(0)
    game.commit(1)
    member, top = game.members[0], game.claims[0].history.top
    game.referee.mine_to(game.job.commit_deadline)
    early = game.referee.refused("reveal", member, game.job_id, top, SALT)
    assert early == Reason.TOO_EARLY
    game.reveal(0)
    game.referee.mine_to(game.job.reveal_deadline)
    game.reveal(1)
    late = game.referee.refused("reveal", member, game.job_id, top, SALT)
    assert late == Reason.TOO_LATE


def test_reveal_shows_what_was_committed(game: Game) -> None:
    """Another claim, another salt, another sender and a second time are refused."""
    game.commit(0)
    game.commit(1)
    game.referee.mine_to(game.job.commit_deadline + 1)
    member, top = game.members[0], game.claims[0].history.top
    wrong = [
        (member, top, bytes(32)),
        (member, SALT, SALT),
        (game.members[1], top, SALT),
        (game.client, top, SALT),
    ]
    for sender, other_top, salt in wrong:
        refused = game.referee.refused("reveal", sender, game.job_id, other_top, salt)
        assert refused == Reason.NOT_COMMITTED
    game.reveal(0)
    again = game.referee.refused("reveal", member, game.job_id, top, SALT)
    assert again == Reason.NOT_COMMITTED


def test_calls_between_matches(game: Game) -> None:
    """A match begins and a job is settled after the reveals, one at a time, and once."""
    for seat in range(2):
        game.commit(seat)
    game.referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(0)
    game.reveal(1)
    game.referee.mine_to(game.job.reveal_deadline)

    def refusals() -> list[str]:
        calls = ("start_match", "settle")
        return [game.referee.refused(name, game.client, game.job_id) for name in calls]

    early = game.referee.refused("start_match", game.client, game.job_id)
    assert early == Reason.TOO_EARLY
    assert game.referee.refused("settle", game.client, game.job_id) == Reason.STILL_DISPUTED
    game.start()
    assert refusals() == [Reason.MATCH_ACTIVE, Reason.MATCH_ACTIVE]
    game.finish()
    no_dispute = game.referee.refused("start_match", game.client, game.job_id)
    assert no_dispute == Reason.NO_DISPUTE
    game.referee.call("settle", game.client, game.job_id)
    assert refusals() == [Reason.SETTLED, Reason.SETTLED]
    bond_wei = game.job.terms.bond_wei
    commit = game.referee.refused("commit", game.client, game.job_id, SALT, value_wei=bond_wei)
    assert commit == Reason.SETTLED


def test_settling_is_too_early_up_to_the_reveal_deadline(game: Game) -> None:
    """A job is not settled in the last block for revealing, but in the next."""
    game.referee.mine_to(game.job.reveal_deadline)
    assert game.referee.refused("settle", game.client, game.job_id) == Reason.TOO_EARLY
    game.referee.call("settle", game.client, game.job_id)
    game.referee.call("withdraw", game.client)
    assert game.referee.store.balance_wei == 0


def test_reward_is_shared_and_its_dust_goes_back(referee: Lockstep) -> None:
    """Of 1,001 wei two winners get 500 each and the client one; hidden bonds are burned."""
    honest = honest_kinds()
    game = Game(referee, kinds(), [honest, honest, honest])
    for seat in range(3):
        game.commit(seat)
    referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(2)
    game.reveal(0)
    referee.mine_to(game.job.reveal_deadline + 1)
    referee.call("settle", game.members[1], game.job_id)
    bond_wei = game.job.terms.bond_wei
    owed = {game.client: 1, game.members[0]: bond_wei + 500, game.members[2]: bond_wei + 500}
    assert referee.store.credits_wei == owed
    assert referee.store.burned_wei == bond_wei
    referee.compare_all()


def test_calls_about_no_job_are_refused(game: Game) -> None:
    """A job that does not exist, next or far, has no calls."""
    for job_id in (game.job_id + 1, 2**255, 2**256 - 1):
        calls: list[tuple[Any, ...]] = [
            ("commit", SALT),
            ("reveal", SALT, SALT),
            ("start_match",),
            ("settle",),
            ("open", SALT, ()),
            ("timeout", SALT),
        ]
        for name, *args in calls:
            refused = game.referee.refused(name, game.client, job_id, *args)
            assert refused == Reason.NO_SUCH_JOB


def test_moves_without_a_match_are_refused(game: Game) -> None:
    """Before, between and after matches there is nothing to move in."""
    moves: list[tuple[Any, ...]] = [("open", SALT, ()), ("rule", SALT, True), ("timeout", SALT)]
    for name, *args in moves:
        refused = game.referee.refused(name, game.client, game.job_id, *args)
        assert refused == Reason.WRONG_PHASE
    game.assemble().start().finish()
    for name, *args in moves:
        refused = game.referee.refused(name, game.client, game.job_id, *args)
        assert refused == Reason.WRONG_PHASE


def test_calls_that_take_no_value_refuse_it(game: Game) -> None:
    """Value is taken for a reward or a bond only."""
    calls: list[tuple[Any, ...]] = [
        ("reveal", 0, SALT, SALT),
        ("start_match", 0),
        ("settle", 0),
        ("withdraw",),
    ]
    for name, *args in calls:
        refused = game.referee.refused(name, game.client, *args, value_wei=1)
        assert refused == Reason.NO_REASON


def test_nobody_withdraws_what_is_not_owed(game: Game) -> None:
    """An account that is owed nothing gets nothing."""
    assert game.referee.refused("withdraw", game.client) == Reason.NOTHING_OWED


@pytest.mark.parametrize("name", ["referee", "leaf"])
def test_contracts_fit_on_the_chain(name: str) -> None:
    """Runtime code is below the limit of EIP-170."""
    assert compile_contract(name).runtime_size < 24_576
