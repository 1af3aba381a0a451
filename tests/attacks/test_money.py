from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import CALLED_THROUGH
from moot.contracts.model.referee import CALLS, call
from moot.contracts.model.types import MAX_BOND_WEI, MIN_BOND_WEI, Message
from moot.contracts.reasons import Ending, Phase, Reason, Standing, Status
from moot.offchain.errors import Reverted
from moot.sim.synthetic.products import MIDDLE, Lie, Size
from tests.attacks.court import HONEST, LIE, REWARD_WEI, SALT, Court, open_court
from tests.attacks.puppet import Payday, Puppet
from tests.attacks.twin import Twin
from tests.quick import every

VIEWS = {
    "jobs",
    "members",
    "claims",
    "matches",
    "get_debt",
    "leaf_contract",
    "legality_contract",
    "prepare_leaf",
}


def collect_all(court: Court) -> int:
    """Let everybody collect that is owed something; return how much, in wei."""
    accounts, referee = {court.client, *court.members}, court.referee
    owed = {account: referee.debt(court.job_id, account) for account in accounts}
    for account in accounts:
        if owed[account]:
            referee.call("collect", account, court.job_id)
    return sum(owed.values())


def test_m1_playing_oneself_costs_half_a_bond(referee: Twin) -> None:
    """Whoever owns both sides of a match gets one bond and a half back for two, and the reward."""
    court = open_court(referee, LIE, HONEST)
    court.finish(court.begin())
    court.settle(1)
    bond = court.terms.bond_wei
    assert collect_all(court) == 2 * bond - bond // 2 + REWARD_WEI
    assert referee.store.burned_wei == bond - bond // 2


def test_m1_prizes_are_lost_with_their_winner(referee: Twin) -> None:
    """A swarm can't save its bonds by letting one of its own win them first."""
    court = open_court(referee, Lie(3), Lie(5), HONEST).assemble()
    assert court.finish(court.start(0, 1)) == (court.members[1], Ending.SCALAR)
    court.wait()
    assert court.finish(court.start(1, 2)) == (court.members[2], Ending.SCALAR)
    court.settle(2)
    bond = court.terms.bond_wei
    assert collect_all(court) == bond + bond // 2 + REWARD_WEI
    assert referee.store.burned_wei == 2 * bond - bond // 2


def test_m2_one_bond_is_enough_for_any_number_of_matches(referee: Twin) -> None:
    """However many liars attack at once, the honest member risks one bond, and wins every match."""
    lies = [LIE] * 5
    court = open_court(referee, HONEST, *lies, clock_blocks=60).assemble()
    held = referee.store.balance_wei
    pairs = [court.start(0, seat) for seat in range(1, 6)]
    while any(court.look(pair) for pair in pairs):
        for pair in pairs:
            if court.look(pair):
                court.make(court.find(pair))
    member = referee.member(court.job_id, court.members[0])
    assert (member.standing, member.prizes) == (Standing.REVEALED, 5)
    assert referee.store.balance_wei == held
    court.settle(0)
    bond = court.terms.bond_wei
    assert collect_all(court) == bond + 5 * (bond // 2) + REWARD_WEI


def test_m3_prize_of_the_least_bond_pays_the_gas_of_a_match(referee: Twin) -> None:
    """At 50 gwei half of the least bond pays all of both sides' moves in the longest dispute."""
    court = open_court(referee, MIDDLE, HONEST, size=Size(), bond_wei=MIN_BOND_WEI)
    court.assemble()
    first = referee.block_number() + 1
    court.finish(court.start())
    last = referee.block_number()
    chain = referee.chain.node._chain  # type: ignore[attr-defined]
    blocks = (chain.get_canonical_block_by_number(n) for n in range(first, last + 1))
    spent = sum(block.header.gas_used for block in blocks)
    assert spent * 50 * 10**9 < court.terms.prize_wei


def test_m4_copied_commitment_is_worth_nothing(referee: Twin) -> None:
    """A digest taken from the mempool can't be revealed by its copier, whose bond burns."""
    court = open_court(referee, HONEST, HONEST)
    owner, thief = court.members
    top, bond = court.get_top(0), court.terms.bond_wei
    digest = referee.commitment(court.job_id, owner, top, SALT)
    for account in (thief, owner):
        referee.call("commit", account, court.job_id, digest, court.named, value_wei=bond)
    referee.mine_to(court.job.commit_deadline + 1)
    assert referee.refused("reveal", thief, court.job_id, top, SALT) == Reason.NOT_COMMITTED
    court.reveal(0)
    court.settle(0)
    assert referee.debt(court.job_id, thief) == 0
    assert referee.store.burned_wei == bond


def test_m4_copied_last_move_pays_its_owner(referee: Twin) -> None:
    """Whoever sends the leaf, the match is won by the same member, and so is its prize."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    events = court.make(replace(move, sender=referee.accounts[8]))
    assert events[-1].args[4] == Ending.SCALAR
    assert referee.member(court.job_id, court.members[1]).prizes == 1
    assert referee.debt(court.job_id, referee.accounts[8]) == 0


def test_m4_copied_late_claim_takes_nothing_from_its_owner(referee: Twin) -> None:
    """Who shows a latecomer's claim before it does gets its own bond back, and no more.

    A late claim is not hidden before it is shown, and so it has no share of the reward.
    """
    court = open_court(referee, LIE, HONEST, HONEST)
    court.assemble([0])
    thief, owner = 2, 1
    court.join(thief)
    court.join(owner)
    assert court.finish(court.start(0, owner)) == (court.members[owner], Ending.SCALAR)
    court.settle(owner)
    bond = court.terms.bond_wei
    assert referee.debt(court.job_id, court.members[owner]) == bond + bond // 2
    assert referee.debt(court.job_id, court.members[thief]) == bond
    assert referee.debt(court.job_id, court.client) == REWARD_WEI


def assemble_with(court: Court, puppet: Puppet) -> None:
    """Assemble, with a puppet in the place of the last member."""
    seat = len(court.runs) - 1
    court.members[seat] = puppet.address
    for other in range(seat):
        court.commit(other)
    top, bond = court.get_top(seat), court.terms.bond_wei
    digest = court.referee.commitment(court.job_id, puppet.address, top, SALT)
    puppet.call("commit", court.job_id, digest, court.named, value_wei=bond)
    court.referee.mine_to(court.job.commit_deadline + 1)
    for other in range(seat):
        court.reveal(other)
    puppet.call("reveal", court.job_id, top, SALT)
    court.referee.mine_to(court.job.reveal_deadline + 1)


def play_with(court: Court, puppet: Puppet) -> None:
    """Play a match of a puppet with the first member, and settle."""
    pair = court.start(0, len(court.runs) - 1)
    while court.look(pair) is not None:
        move = court.find(pair)
        if move.sender == puppet.address:
            puppet.call(move.name, *move.args)
        else:
            court.make(move)
    court.settle(len(court.runs) - 1)


@pytest.fixture
def puppet(referee: Twin, tmp_path: Path) -> Puppet:
    """A puppet on the referee's chain."""
    return Puppet(referee, tmp_path)


@pytest.fixture
def won(referee: Twin, puppet: Puppet) -> Court:
    """A closed job whose one winner is a puppet."""
    court = open_court(referee, LIE, HONEST)
    assemble_with(court, puppet)
    play_with(court, puppet)
    return court


def test_m5_contract_is_paid_not_whoever_moves_it(won: Court, puppet: Puppet) -> None:
    """A member may be a contract: the money goes to it, and not to the transaction's origin."""
    referee, bond = won.referee, won.terms.bond_wei
    owed = bond + bond // 2 + REWARD_WEI
    assert referee.debt(won.job_id, puppet.address) == owed
    refused = referee.refused("collect", puppet.hand, won.job_id)
    assert refused == Reason.NOTHING_OWED
    puppet.call("collect", won.job_id)
    assert referee.balance(puppet.address) == owed
    assert referee.store.balance_wei == 0


def test_m6_client_as_a_member_is_paid_as_both(referee: Twin) -> None:
    """The client may win its own job: as a member it is like any other."""
    court = open_court(referee, HONEST, LIE)
    court.members[0] = court.client
    court.finish(court.begin())
    court.settle(0)
    bond = court.terms.bond_wei
    (paid,) = referee.call("collect", court.client, court.job_id)
    assert paid.args[2] == bond + bond // 2 + REWARD_WEI
    late = open_court(referee, LIE, HONEST, HONEST)
    late.members[2] = late.client
    late.assemble([0, 1])
    late.start()
    late.join(2)
    pair = late.start(0, 2)
    late.finish(pair)
    late.settle(1)
    assert referee.debt(late.job_id, late.client) == bond + bond // 2
    collect_all(late)
    assert referee.store.balance_wei == 0


@pytest.mark.parametrize("payday", every(6, [Payday.REFUSE, Payday.BURN_GAS, Payday.SHOUT]))
def test_m6_m9_winner_that_refuses_money_stops_nobody(
    referee: Twin, puppet: Puppet, payday: Payday
) -> None:
    """A receiver that reverts, burns all gas or shouts keeps its own money waiting, not others'."""
    puppet.arm(payday)
    court = open_court(referee, LIE, HONEST, HONEST)
    assemble_with(court, puppet)
    play_with(court, puppet)
    owed = referee.debt(court.job_id, puppet.address)
    with pytest.raises(Reverted):
        puppet.send(("collect", court.job_id))
    referee.compare()
    referee.call("collect", court.members[1], court.job_id)
    assert referee.debt(court.job_id, puppet.address) == owed
    puppet.arm(Payday.KEEP)
    puppet.call("collect", court.job_id)
    assert referee.balance(puppet.address) == owed
    assert referee.store.balance_wei == 0


def test_m7_nothing_is_paid_while_anything_is_open(referee: Twin) -> None:
    """No job is settled under a running match, and every bond is freed or burned by the end."""
    court = open_court(referee, LIE, HONEST, LIE, clock_blocks=100).assemble()
    pairs = court.start(0, 1), court.start(1, 2)
    court.finish(pairs[0])
    court.wait()
    settle = ("settle", court.client, court.job_id, court.get_top(1))
    assert referee.refused(*settle) == Reason.STILL_DISPUTED
    assert referee.refused("collect", court.members[1], court.job_id) == Reason.TOO_EARLY
    court.finish(pairs[1])
    referee.call(*settle)
    collect_all(court)
    assert referee.store.balance_wei == 0


def test_m8_receiver_that_calls_again_is_owed_nothing(won: Court, puppet: Puppet) -> None:
    """A collection within a collection is refused: the debt is gone before the money is."""
    referee, job_id = won.referee, won.job_id
    owed = referee.debt(job_id, puppet.address)
    again = puppet.encode("collect", job_id)
    settle = puppet.encode("settle", job_id, won.get_top(1))
    puppet.arm(Payday.CALL, again, settle, again)
    puppet.call("collect", job_id)
    assert puppet.successes == 0
    assert referee.balance(puppet.address) == owed


def test_m8_debt_that_arises_during_a_payment_is_kept(
    referee: Twin, puppet: Puppet, won: Court
) -> None:
    """A receiver that settles another job while it is paid is owed exactly that job's money."""
    other = open_court(referee, HONEST)
    assemble_with(other, puppet)
    other.wait()
    settle = ("settle", other.job_id, other.get_top(0))
    puppet.arm(Payday.CALL, puppet.encode(*settle), puppet.encode("collect", other.job_id))
    block = referee.block_number() + 1
    for name, *args in (("collect", won.job_id), settle, ("collect", other.job_id)):
        call(referee.store, str(name), Message(puppet.address, 0, block), *args)
    puppet.send(("collect", won.job_id))
    referee.compare()
    # The payment within the payment makes the receiver call once more, of which all is refused.
    assert puppet.successes == 2
    assert referee.store.balance_wei == 0


def test_m10_nobody_lengthens_a_window_of_others(referee: Twin) -> None:
    """Joining, revealing and moving leave every window and deadline where it was."""
    court = open_court(referee, LIE, HONEST, LIE, HONEST, Lie(3))
    court.assemble([0, 1])
    ends = court.job.window_end
    court.join(4)
    assert court.job.window_end == ends
    pair = court.start()
    met = referee.claim(court.job_id, court.get_top(0))
    assert met is not None
    at = court.at(pair)
    court.join(2)
    court.join(3)
    court.start(2, 3)
    assert court.at(pair) == at
    for seat in (0, 1):
        claim = referee.claim(court.job_id, court.get_top(seat))
        assert claim is not None
        assert claim.window_end == met.window_end == court.job.window_end


def test_m11_nothing_can_be_changed_by_anybody() -> None:
    """The contracts have the calls of the model and views, and no other: no owner, no parameter.

    A leaf is a call of its own contract, which tells the referee what it has computed, and so are
    the proofs that a program is not legal.
    """
    own = set(CALLS) - set(CALLED_THROUGH)
    assert _list_calls("referee") == (own | {"decide_leaf", "annul"}, VIEWS)
    assert _list_calls("legality") == ({"prove_operator", "prove_operand"}, set())
    assert _list_calls("leaf") == ({"leaf"}, {"compute", "inspect"})
    assert _list_calls("transcendental") == (set(), {"evaluate"})


def _list_calls(contract: str) -> tuple[set[str], set[str]]:
    """Return the names of a contract's calls that may change anything, and of its views."""
    functions = [e for e in compile_contract(contract).abi if e["type"] == "function"]
    views = {e["name"] for e in functions if e["stateMutability"] in {"view", "pure"}}
    return {e["name"] for e in functions} - views, views


def test_m12_nothing_is_paid_twice(referee: Twin) -> None:
    """Matches, jobs and debts end once; what is left in the contract is what others are owed."""
    court = open_court(referee, LIE, HONEST)
    court.finish(court.begin())
    court.settle(1)
    settle = ("settle", court.client, court.job_id, court.get_top(1))
    assert referee.refused(*settle) == Reason.CLOSED
    referee.call("collect", court.members[1], court.job_id)
    for account in (court.members[1], court.members[0], court.client, referee.accounts[8]):
        assert referee.refused("collect", account, court.job_id) == Reason.NOTHING_OWED
    assert referee.store.balance_wei == 0


def test_m12_one_jobs_money_never_pays_for_another(referee: Twin) -> None:
    """While one job is stuck in a match, another is settled and paid, out of its own money."""
    stuck, court = open_court(referee, LIE, HONEST), open_court(referee, LIE, HONEST)
    for each in (stuck, court):
        for seat in range(2):
            each.commit(seat)
    referee.mine_to(court.job.commit_deadline + 1)
    for each in (stuck, court):
        for seat in range(2):
            each.reveal(seat)
    referee.mine_to(court.job.reveal_deadline + 1)
    stuck.start()
    court.finish(court.start())
    court.settle(1)
    collect_all(court)
    assert referee.store.balance_wei == 2 * stuck.terms.bond_wei + REWARD_WEI


def test_m13_moves_earn_nothing(referee: Twin) -> None:
    """What everybody gets depends on who won, not on how many moves there were, or how dear."""
    paid = []
    for lie in (LIE, Lie(-1), Lie(6, operator=9)):
        with referee.branch():
            court = open_court(referee, lie, HONEST)
            court.finish(court.begin())
            court.settle(1)
            paid.append([referee.debt(court.job_id, account) for account in court.members])
    assert paid[0] == paid[1] == paid[2]


def test_m14_dust_is_burned(referee: Twin) -> None:
    """A reward that can't be divided is rounded down for all alike; the rest is nobody's."""
    court = open_court(referee, HONEST, HONEST, HONEST).assemble()
    court.settle(0)
    assert collect_all(court) == 3 * (court.terms.bond_wei + REWARD_WEI // 3)
    assert referee.store.burned_wei == REWARD_WEI % 3
    assert referee.store.balance_wei == 0


def test_m14_odd_bonds_are_divided_without_loss(referee: Twin) -> None:
    """Of a bond that is not even, the odd wei is burned."""
    court = open_court(referee, LIE, HONEST, bond_wei=MIN_BOND_WEI + 1)
    court.finish(court.begin())
    court.settle(1)
    collect_all(court)
    assert referee.store.burned_wei == MIN_BOND_WEI // 2 + 1
    assert referee.store.balance_wei == 0


@pytest.mark.parametrize("bond_wei", [MAX_BOND_WEI + 1, 2**96, 2**128, 2**255, 2**256 - 1])
def test_m14_bonds_that_do_not_fit_their_word_are_absurd(referee: Twin, bond_wei: int) -> None:
    """The bond is kept in 80 bits: one of 2^80 wei or more is refused, and never cut."""
    terms = replace(open_court(referee, HONEST).terms, bond_wei=bond_wei)
    refused = referee.refused("open_job", referee.accounts[0], terms)
    assert refused == Reason.ABSURD_TERMS


@pytest.mark.parametrize("bond_wei", [10**24, MAX_BOND_WEI - 1, MAX_BOND_WEI])
def test_m14_bonds_that_nobody_has_overflow_nothing(referee: Twin, bond_wei: int) -> None:
    """A job with a bond above all the money there is stays empty, and can be closed and paid."""
    court = open_court(referee, HONEST, bond_wei=bond_wei)
    commit = ("commit", court.members[0], court.job_id, SALT, court.named)
    for value in (0, 1, bond_wei % 10**20):
        assert referee.refused(*commit, value_wei=value) == Reason.WRONG_BOND
    court.settle(0)
    assert court.job.status is Status.EMPTY
    assert collect_all(court) == REWARD_WEI


def test_m15_lie_that_nobody_disputes_is_settled(referee: Twin) -> None:
    """The referee computes nothing of its own accord: somebody honest has to be there."""
    court = open_court(referee, LIE).assemble()
    court.settle(0)
    assert court.job.status is Status.WON


def test_m15_honest_latecomer_is_enough(referee: Twin) -> None:
    """Whoever finds the lie by the end of the window may join with the truth, and wins prizes."""
    court = open_court(referee, LIE, LIE, HONEST)
    court.assemble([0, 1])
    referee.mine_to(court.job.window_end)
    court.join(2)
    for seat in (0, 1):
        assert court.finish(court.start(seat, 2)) == (court.members[2], Ending.SCALAR)
    court.settle(2)
    bond = court.terms.bond_wei
    assert referee.debt(court.job_id, court.members[2]) == 2 * bond
    assert referee.debt(court.job_id, court.client) == REWARD_WEI


def test_m16_bond_has_a_floor(referee: Twin) -> None:
    """No client can agree with its provider on a bond that is worth nothing."""
    court = open_court(referee, HONEST)
    for bond in (0, 1, MIN_BOND_WEI - 1):
        terms = replace(court.terms, bond_wei=bond)
        assert referee.refused("open_job", court.client, terms) == Reason.BOND_TOO_SMALL


def test_m16_client_and_liar_together_cannot_beat_the_truth(referee: Twin) -> None:
    """The client is asked for nothing that decides: its help changes no verdict and no payout."""
    court = open_court(referee, LIE, HONEST, LIE)
    court.members[2] = court.client
    court.assemble()
    for seat in (0, 2):
        assert court.finish(court.start(seat, 1)) == (court.members[1], Ending.SCALAR)
    court.settle(1)
    assert referee.debt(court.job_id, court.client) == 0


def test_m7_order_of_collecting_does_not_matter(referee: Twin) -> None:
    """Everybody gets the same whoever comes first."""
    court = open_court(referee, LIE, HONEST, HONEST).assemble()
    court.finish(court.start(0, 1))
    court.settle(1)
    paid = []
    for order in permutations(court.members[1:]):
        with referee.branch():
            events = [referee.call("collect", account, court.job_id)[0] for account in order]
            paid.append({event.args[1]: event.args[2] for event in events})
            assert referee.store.balance_wei == 0
    assert paid[0] == paid[1]
