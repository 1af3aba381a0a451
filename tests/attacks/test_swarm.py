from math import ceil, log2
from random import Random

import pytest

from moot.offchain.disputes.referee.port import ModelReferee
from moot.sim.swarm import STAKES, Swarm, draw_crowds, draw_lies, open_swarm
from tests.quick import only

BOND = STAKES.bond_wei
MOVES = 40
"""More than a match of the swarm's job can have."""


def get_bound(liars: int) -> int:
    """Return in how many blocks a job with so many liars is closed, however they play."""
    match = 2 * STAKES.clock_blocks + STAKES.increment_blocks * MOVES
    rounds = ceil(log2(liars + 1))
    # Beginning a match, seeing that a clock has run out, and settling each take a block.
    return rounds * (max(STAKES.window_blocks, match) + 2) + STAKES.window_blocks + 1


def make_accounts(count: int, seed: int) -> list[str]:
    """Return addresses whose order has nothing to do with who has them."""
    return [f"0x{number:040x}" for number in Random(seed).sample(range(1, 1 << 30), count)]


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("liars", only({1, 2, 3, 8, 31}, [1, 2, 3, 4, 7, 8, 15, 31, 32, 100, 300]))
def test_s6_swarm_costs_the_logarithm_of_its_size(liars: int, silent: bool) -> None:  # noqa: FBT001 - a test's case
    """One honest claim beats any number of others, in as many meetings as their logarithm says.

    All that the swarm loses is prizes or burned: there is no wei left over.
    """
    accounts = make_accounts(liars + 1, liars)
    referee = ModelReferee(dict.fromkeys(accounts, 10**24))
    tally = Swarm(referee, accounts, draw_lies(liars, liars, silent=silent)).play()
    assert tally.has_won
    assert tally.meetings <= ceil(log2(liars + 1))
    assert tally.blocks <= get_bound(liars)
    assert referee.store.balance_wei == 0
    gained = referee.balance(accounts[0]) - 10**24
    assert gained == tally.prizes * (BOND // 2)
    assert tally.prizes <= tally.meetings
    assert referee.store.burned_wei == liars * BOND - tally.prizes * (BOND // 2)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("roots", [1, 2])
def test_m2_crowds_have_hardly_more_matches_than_members(roots: int, silent: bool) -> None:  # noqa: FBT001 - a test's case
    """Of two crowds that meet not everybody plays everybody; behind one root each match is paid."""
    liars = 40
    accounts = make_accounts(liars + 1, 7)
    referee = ModelReferee(dict.fromkeys(accounts, 10**24))
    lies = draw_crowds(roots, liars // roots, 7, silent=silent)
    tally = Swarm(referee, accounts, lies).play()
    assert tally.has_won
    assert liars <= tally.matches <= liars + liars // 8
    assert tally.prizes == liars or roots > 1
    assert referee.store.balance_wei == 0


@pytest.mark.parametrize("most", only({63}, [63, 127]))
def test_s6_honest_clients_calls_grow_with_the_swarm_and_its_own_match_moves_do_not(
    most: int,
) -> None:
    """What the honest side does more than logarithmically often is to begin and end matches."""
    moves = []
    for liars in (31, most):
        accounts = make_accounts(liars + 1, liars)
        referee = ModelReferee(dict.fromkeys(accounts, 10**24))
        tally = Swarm(referee, accounts, draw_lies(liars, liars)).play()
        honest = tally.calls[accounts[0]]
        # At most one match a liar is begun, or ended by the clock; settled and collected once.
        moves.append(honest - 2 * liars)
        assert honest <= 2 * liars + 5 + tally.meetings * MOVES // 2
    assert max(moves) < 5 + 7 * MOVES


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_s6_three_hundred_lies_against_one_truth_on_the_chain(silent: bool) -> None:  # noqa: FBT001 - a test's case
    """The same on the contract: the honest claim wins, and no wei stays behind."""
    swarm = open_swarm(draw_lies(300, 300, silent=silent))
    tally = swarm.play()
    assert tally.has_won
    assert tally.meetings <= ceil(log2(301))
    assert tally.blocks <= get_bound(300)
    assert swarm.referee.balance(swarm.referee.address) == 0  # type: ignore[union-attr]


def test_s6_swarm_on_the_chain_and_on_the_model_are_one() -> None:
    """Played on both, the same swarm takes the same calls, meetings and blocks."""
    lies = draw_lies(12, 5)
    swarm = open_swarm(lies)
    model = ModelReferee(dict.fromkeys(swarm.accounts, 10**24))
    tallies = swarm.play(), Swarm(model, swarm.accounts, lies).play()
    assert tallies[0].calls == tallies[1].calls
    assert tallies[0].blocks == tallies[1].blocks
    assert min(tallies[0].gas.values()) > 0
