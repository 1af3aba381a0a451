"""Crowds of liars behind one claim, on the contract: the honest provider answers all of them.

Everybody has the default stakes. The liars are one party and the honest provider is another, each
with its own agent; each has half of every block, and the liars the first half.
"""

from dataclasses import replace

import pytest

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import Ending
from moot.offchain.chain import connect
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.sim.synthetic.products import Lie, Size, seat
from tests.quick import only

SIZE = Size(checkpoints=16, operators=8, rows=8, columns=16, terms=16)
LIE = Lie(step=6, operator=4, element=77, term=5)
HONEST = "honest-1"


def open_crowd(liars: int, *, is_silent: bool, stakes: Stakes = USUAL) -> Game:
    """Return the game of one honest provider and so many liars behind one claim, on a new chain."""
    chain = connect(accounts=liars + 2)
    referee = ChainReferee(chain, deploy_referee(chain, chain.accounts[0]), 0)
    lies = [replace(LIE, is_silent=is_silent)] * liars
    return seat(referee, SIZE, chain.accounts, lies, stakes)


def play_apart(table: Game) -> tuple[Game, list[Played]]:
    """Play a table by two agents in turn; return that of the honest one, with its calls."""
    table.take_turn()
    honest, *liars = table.players
    agent = replace(table, players=[honest], client=honest.address)
    crowd = replace(table, players=liars, client=liars[0].address)
    played: list[Played] = []
    is_open = True
    while is_open:
        turns = [each.take_turn() for each in (crowd, agent)]
        played += turns[1] or ()
        is_open = turns != [None, None] or agent.wait()
    return agent, played


@pytest.mark.parametrize("is_silent", only({False}, [False, True]), ids=["fighting", "silent"])
@pytest.mark.parametrize(
    "liars", [18, *(pytest.param(n, marks=pytest.mark.slow) for n in (32, 300))]
)
def test_a_crowd_behind_one_claim_does_not_outnumber_one_agent(
    liars: int,
    is_silent: bool,  # noqa: FBT001 - a test's case
) -> None:
    """The honest member wins every match in time, is paid for each, and has paid for less.

    It has one match with each liar, and at 50 gwei its gas costs less than the prizes of the least
    bond are.
    """
    agent, played = play_apart(open_crowd(liars, is_silent=is_silent))
    (honest,) = agent.players
    job, ended = agent.referee.job(agent.job_id), agent.ended
    assert agent.get_winners() == [HONEST]
    assert (job.defeated, job.forfeits, len(ended)) == (liars, 0, liars)
    assert {it.ending for it in ended} == {Ending.CLOCK if is_silent else Ending.SCALAR}
    prizes_wei = liars * job.terms.prize_wei
    (collected,) = [it for it in played if it.call == "collect"]
    paid_wei = job.terms.bond_wei + prizes_wei + job.reward_wei
    assert collected.events[0].args == (agent.job_id, honest.address, paid_wei)
    gas = sum(it.receipt.gas_used for it in played if it.receipt)
    assert gas * 50 * 10**9 < liars * (MIN_BOND_WEI // 2)
