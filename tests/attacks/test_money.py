from dataclasses import replace
from pathlib import Path

import pytest

from contracts.model.referee import call, compute_commitment
from contracts.model.types import MIN_BOND_WEI, WINNER_SHARE, Message
from contracts.reasons import Phase, Reason
from offchain.chain import Address
from offchain.errors import Reverted
from tests.attacks.puppet import Payday, Puppet
from tests.lockstep.claims import Claim, cheating
from tests.lockstep.game import SALT, Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds


def test_m1_playing_oneself_costs_half_a_bond(referee: Lockstep) -> None:
    """Whoever owns both sides of a match gets one bond and a half back for two, and the reward."""
    game = Game(referee, kinds(), [cheating(kinds(), 1, 6), honest_kinds()]).assemble()
    game.start().finish()
    referee.call("settle", game.client, game.job_id)
    bond_wei = game.job.terms.bond_wei
    back_wei = sum(referee.store.credits_wei.get(member, 0) for member in game.members)
    assert back_wei == 2 * bond_wei - bond_wei // WINNER_SHARE + game.job.reward_wei
    assert referee.store.burned_wei == bond_wei - bond_wei // WINNER_SHARE


def test_m3_winners_share_of_the_least_bond_pays_the_gas_of_a_match(referee: Lockstep) -> None:
    """At 50 gwei half of the least bond pays for all of both sides' moves in a match."""
    game = Game(referee, kinds(4, 2), [cheating(kinds(4, 2), 1, 6), honest_kinds(4, 2)])
    game.assemble()
    before = sum(map(sum, referee.gas.values()))
    game.start().finish()
    spent = sum(map(sum, referee.gas.values())) - before
    assert spent * 50 * 10**9 < MIN_BOND_WEI // WINNER_SHARE


def test_m4_copied_commitment_is_worth_nothing(referee: Lockstep) -> None:
    """A digest taken from the mempool cannot be revealed by its copier, whose bond burns."""
    game = Game(referee, kinds(), [honest_kinds(), honest_kinds()])
    owner, thief = game.members
    top, bond_wei = honest_kinds().history.top, game.job.terms.bond_wei
    digest = compute_commitment(referee.store, game.job_id, owner, top, SALT)
    for account in (thief, owner):
        referee.call("commit", account, game.job_id, digest, value_wei=bond_wei)
    referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(0)
    refused = referee.refused("reveal", thief, game.job_id, top, SALT)
    assert refused == Reason.NOT_COMMITTED
    referee.mine_to(game.job.reveal_deadline + 1)
    referee.call("settle", game.client, game.job_id)
    assert thief not in referee.store.credits_wei
    assert referee.store.burned_wei == bond_wei


def join(game: Game, puppet: Puppet, claim: Claim) -> None:
    """Let a puppet commit to a claim."""
    top = claim.history.top
    digest = compute_commitment(game.referee.store, game.job_id, puppet.address, top, SALT)
    puppet.call("commit", game.job_id, digest, value_wei=game.job.terms.bond_wei)


def start_with(game: Game, puppet: Puppet) -> None:
    """Bring a game whose second member is a puppet to its first match."""
    game.commit(0)
    game.members = (game.members[0], Address(puppet.address))
    join(game, puppet, game.claims[1])
    game.referee.mine_to(game.job.commit_deadline + 1)
    game.reveal(0)
    puppet.call("reveal", game.job_id, game.claims[1].history.top, SALT)
    game.referee.mine_to(game.job.reveal_deadline + 1)
    game.start()


def play_with(game: Game, puppet: Puppet) -> None:
    """Play a match in which a puppet is the challenger."""
    while game.is_playing:
        move = game.next_move()
        if move.sender == puppet.address and move.name != "leaf":
            puppet.call(move.name, *move.args)
        else:
            # Anybody may show what is proven already.
            game.make(replace(move, sender=game.members[0]))


@pytest.fixture
def puppet(referee: Lockstep, tmp_path: Path) -> Puppet:
    """A puppet on the referee's chain."""
    return Puppet(referee, tmp_path)


@pytest.fixture
def won(referee: Lockstep, puppet: Puppet) -> Game:
    """A settled job whose one winner, the challenger, is a puppet."""
    game = Game(referee, kinds(), [cheating(kinds(), 1, 13, 66), honest_kinds()])
    start_with(game, puppet)
    play_with(game, puppet)
    referee.call("settle", game.client, game.job_id)
    return game


def test_m5_winner_is_paid_whoever_sends_the_last_move(won: Game, puppet: Puppet) -> None:
    """Credit goes to the member, not to the sender of the leaf or a transaction's origin."""
    bond_wei = won.job.terms.bond_wei
    owed_wei = bond_wei + bond_wei // WINNER_SHARE + won.job.reward_wei
    assert won.referee.store.credits_wei == {puppet.address: owed_wei}
    before_wei = won.referee.chain.balance(puppet.contract.address)
    puppet.call("withdraw")
    assert won.referee.chain.balance(puppet.contract.address) == before_wei + owed_wei


@pytest.mark.parametrize("payday", [Payday.REFUSE, Payday.BURN_GAS, Payday.SHOUT])
def test_m6_m9_winner_that_refuses_money_stops_nobody(
    referee: Lockstep, puppet: Puppet, payday: Payday
) -> None:
    """A receiver that reverts or burns all gas keeps its own money waiting, and only that."""
    puppet.arm(payday)
    game = Game(referee, kinds(), [cheating(kinds(), 1, 13, 66), honest_kinds()])
    start_with(game, puppet)
    play_with(game, puppet)
    referee.call("settle", game.client, game.job_id)
    owed_wei = referee.store.credits_wei[puppet.address]
    with pytest.raises(Reverted):
        puppet.contract.transact("play", [puppet.encode("withdraw")], sender=puppet.hand)
    referee._compare_supply()
    assert referee.contract.call("credits_wei", puppet.address) == owed_wei
    puppet.arm(Payday.KEEP)
    puppet.call("withdraw")
    assert referee.chain.balance(puppet.contract.address) == owed_wei


def test_m8_receiver_that_calls_again_is_owed_nothing(won: Game, puppet: Puppet) -> None:
    """A withdrawal within a withdrawal is refused: the debt is gone before the money is."""
    owed_wei = won.referee.store.credits_wei[puppet.address]
    again = [puppet.encode("withdraw"), puppet.encode("settle", won.job_id)]
    puppet.arm(Payday.CALL, *again, puppet.encode("start_match", won.job_id))
    puppet.call("withdraw")
    assert puppet.successes == 0
    assert won.referee.chain.balance(puppet.contract.address) == owed_wei


def test_m8_credit_that_arises_during_a_payment_is_kept(
    referee: Lockstep, puppet: Puppet, won: Game
) -> None:
    """A receiver that settles another job while it is paid is owed exactly that job's money."""
    other = Game(referee, kinds(), [honest_kinds(), honest_kinds()])
    join(other, puppet, honest_kinds())
    referee.mine_to(other.job.commit_deadline + 1)
    puppet.call("reveal", other.job_id, honest_kinds().history.top, SALT)
    referee.mine_to(other.job.reveal_deadline + 1)
    puppet.arm(Payday.CALL, puppet.encode("settle", other.job_id))
    data = [puppet.encode("withdraw")]
    block = referee.chain.block_number() + 1
    for name, *args in (("withdraw",), ("settle", other.job_id)):
        call(referee.store, name, Message(puppet.address, 0, block), *args)
    puppet.contract.transact("play", data, sender=puppet.hand)
    referee._compare_supply()
    referee.compare_all()
    assert puppet.successes == 1
    owed_wei = other.job.terms.bond_wei + other.job.reward_wei
    assert referee.store.credits_wei == {puppet.address: owed_wei}
    assert won.job.is_settled


def test_m12_nothing_is_paid_twice(referee: Lockstep) -> None:
    """Matches, jobs and debts end once; what is left in the contract is what others are owed."""
    game = Game(referee, kinds(), [cheating(kinds(), 1, 6), honest_kinds()]).assemble().start()
    game.play_to(Phase.LEAF)
    last = game.next_move()
    game.make(last)
    assert referee.refused(last.name, last.sender, *last.args) == Reason.WRONG_PHASE
    referee.call("settle", game.client, game.job_id)
    assert referee.refused("settle", game.client, game.job_id) == Reason.SETTLED
    winner = game.members[1]
    referee.call("withdraw", winner)
    assert referee.refused("withdraw", winner) == Reason.NOTHING_OWED
    assert referee.refused("withdraw", game.client) == Reason.NOTHING_OWED
    assert referee.store.balance_wei == 0


def test_m12_one_jobs_money_never_pays_for_another(referee: Lockstep) -> None:
    """While one job is being played, another is settled and paid, out of its own money."""
    stuck = Game(referee, kinds(), [cheating(kinds(), 1, 6), honest_kinds()])
    game = Game(referee, kinds(), [honest_kinds(), cheating(kinds(), 0, 10, 2)])
    for seat in range(2):
        stuck.commit(seat)
        game.commit(seat)
    referee.mine_to(game.job.commit_deadline + 1)
    for seat in range(2):
        stuck.reveal(seat)
        game.reveal(seat)
    referee.mine_to(game.job.reveal_deadline + 1)
    stuck.start().play_to(Phase.TRACE)
    game.start().finish()
    referee.call("settle", game.client, game.job_id)
    referee.call("withdraw", game.members[0])
    bonds_wei = sum(stuck.job.terms.bond_wei for _ in stuck.job.members)
    assert referee.store.balance_wei == bonds_wei + stuck.job.reward_wei


def test_c8_several_moves_in_one_block_cost_no_time(referee: Lockstep, puppet: Puppet) -> None:
    """A member that answers within the very transaction of an opening keeps its whole clock."""
    game = Game(referee, kinds(), [cheating(kinds(), 1, 13, 66), honest_kinds()])
    start_with(game, puppet)
    opening = game.next_move()
    with referee.branch():
        game.make(opening)
        pick = game.next_move()
    puppet.play((opening.name, *opening.args), (pick.name, *pick.args))
    assert game.match.challenger_clock == game.job.terms.clock_blocks
    assert (game.match.moves, game.match.phase) == (2, Phase.ENTER_TRACE)
