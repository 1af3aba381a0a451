from dataclasses import replace
from pathlib import Path

import pytest

from moot.contracts.compiler import SOURCE_DIR
from moot.contracts.reasons import Ending, Phase, Reason, Standing
from moot.offchain.chain import Receipt
from moot.offchain.disputes.play.tournament import Tournament
from moot.sim.synthetic.products import Lie
from tests.attacks.court import HONEST, LIE, open_court
from tests.attacks.puppet import Puppet
from tests.attacks.twin import Twin

OWN = {"enter_claimed", "pick_element", "pick_segment"}
"""Fresh commitments, which nobody can make for another."""


def get_gas(receipt: Receipt | None) -> int:
    """Return what a call cost."""
    assert receipt is not None
    return receipt.gas_used


def test_g1_no_call_is_dearer_for_there_being_more_members(referee: Twin) -> None:
    """Committing, revealing, joining, meeting, settling and collecting cost the same among many."""
    gas: dict[int, list[int]] = {}
    for many in (1, 7):
        with referee.branch():
            court = open_court(referee, *[LIE] * many, HONEST)
            court.assemble()
            seat = many
            court.finish(court.start(0, seat))
            for other in range(1, many):
                court.finish(court.start(other, seat))
            court.wait()
            job, top = court.job_id, court.get_top(seat)
            settled = referee.transact("settle", job, top, sender=court.client)
            collected = referee.transact("collect", job, sender=court.members[seat])
            gas[many] = [get_gas(settled.receipt), get_gas(collected.receipt)]
    for few, lots in zip(gas[1], gas[7], strict=True):
        assert abs(few - lots) < 100


def test_g1_contract_loops_over_nothing_that_others_can_lengthen() -> None:
    """Every loop of the referee is over levels, lists or bytes of the call itself."""
    for name in ("ledger", "tournament", "referee", "turns"):
        assert "for " not in _strip((SOURCE_DIR / f"{name}.vy").read_text()), name


def _strip(source: str) -> str:
    """Return a source without its comments and its texts."""
    code = source.split('"""')[::2]
    return "\n".join(line.split("#")[0] for line in "\n".join(code).splitlines())


def test_g2_every_call_is_far_below_a_transactions_gas(referee: Twin) -> None:
    """No call of the longest dispute takes a tenth of what a transaction may have."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    while court.look(pair) is not None:
        move = court.find(pair)
        outcome = referee.transact(move.name, *move.args, sender=move.sender)
        assert get_gas(outcome.receipt) < 2**24 // 10


def test_g3_leaf_without_enough_gas_is_no_verdict(referee: Twin, tmp_path: Path) -> None:
    """With too little gas, within the leaf contract too, nothing happens; with enough, it ends."""
    puppet = Puppet(referee, tmp_path)
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    court.play_to(pair, Phase.LEAF)
    move = court.find(pair)
    outcomes = []
    for gas in range(20_000, 400_000, 20_000):
        with referee.branch():
            is_accepted = puppet.squeeze(gas, move.name, *move.args)
            assert (referee.match(pair) == bytes(32)) == is_accepted
            standing = referee.member(court.job_id, court.members[0]).standing
            assert standing == (Standing.DEFEATED if is_accepted else Standing.REVEALED)
            outcomes.append(is_accepted)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


def test_g4_copied_moves_change_nothing_but_their_sender(referee: Twin) -> None:
    """All through a match each move is copied first: it is refused, or does what the owner wants.

    The owner's own transaction then fails, it looks again, and goes on.
    """
    court = open_court(referee, LIE, HONEST)
    pair, thief = court.begin(), referee.accounts[8]
    copied = set()
    while court.look(pair) is not None:
        move = court.find(pair)
        copy = replace(move, sender=thief)
        if move.name in OWN:
            assert court.refuse(copy) == Reason.NOT_YOURS
            court.make(move)
        else:
            copied.add(move.name)
            events = court.make(copy)
            assert court.refuse(move) == Reason.STALE
    assert copied == {"descend", "enter_tensor", "reach_chunk", "leaf"}
    assert events[-1].args[4] == Ending.SCALAR
    assert referee.member(court.job_id, court.members[1]).prizes == 1


def test_g4_nobody_speaks_for_the_other_side(referee: Twin) -> None:
    """The opponent can't make a side's own commitments either, in its turn or out of it."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    while court.look(pair) is not None:
        move = court.find(pair)
        rival = next(member for member in court.members if member != move.sender)
        if move.name in OWN:
            assert court.refuse(replace(move, sender=rival)) == Reason.NOT_YOURS
        court.make(move)


def test_g4_moves_that_are_sent_twice_count_once(referee: Twin) -> None:
    """A move that is sent again, because nobody knew whether it had arrived, is stale."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    while court.look(pair) is not None:
        move = court.find(pair)
        court.make(move)
        assert court.refuse(move) == Reason.STALE


def test_g4_agent_knows_from_the_events_alone(referee: Twin) -> None:
    """After every call an agent that was started anew makes the move that another would."""
    court = open_court(referee, LIE, HONEST)
    pair = court.begin()
    lasting = Tournament(court.job_id, court.terms)
    while court.look(pair) is not None:
        lasting.read(referee.events(court.job_id))
        assert lasting.boards[pair] == court.look(pair)
        court.make(court.find(pair))


def test_g6_referee_creates_no_contract(referee: Twin) -> None:
    """A whole game leaves the referee's nonce where it was: no address depends on the order."""
    state = referee.chain.node._chain.get_vm().state  # type: ignore[attr-defined]
    address = bytes.fromhex(referee.address[2:])
    before = state.get_nonce(address)
    court = open_court(referee, LIE, HONEST)
    court.finish(court.begin())
    state = referee.chain.node._chain.get_vm().state  # type: ignore[attr-defined]
    assert state.get_nonce(address) == before
    assert referee.contract.call("leaf_contract") != referee.address


@pytest.mark.parametrize("length", [5, 18])
def test_g7_full_blocks_before_a_deadline_cost_time_only(referee: Twin, length: int) -> None:
    """If no transaction gets in for many blocks, whoever's turn it is, what is due waits."""
    court = open_court(referee, LIE, HONEST)
    pair, is_full = court.begin(), True
    while (board := court.look(pair)) is not None:
        if is_full and board.position.phase is Phase.TENSOR:
            referee.chain.mine(length)
            is_full = False
        events = court.make(court.find(pair))
    assert events[-1].args[4] == Ending.SCALAR
    assert referee.member(court.job_id, court.members[1]).prizes == 1


def test_g8_no_decision_depends_on_gas() -> None:
    """No source asks how much gas there is, or limits that of a call: forks may change it."""
    for path in SOURCE_DIR.rglob("*.vy*"):
        code = _strip(path.read_text())
        assert "msg.gas" not in code, path.name
        assert "gas=" not in code, path.name


def test_v5_stuck_job_freezes_nobody_else(referee: Twin) -> None:
    """While a match waits for its clocks, matches of the same and of other jobs go on."""
    stuck = open_court(referee, Lie(3), LIE, HONEST, clock_blocks=2000)
    stuck.assemble()
    waiting = stuck.start(0, 1)
    court = open_court(referee, LIE, HONEST)
    assert court.finish(court.begin()) == (court.members[1], Ending.SCALAR)
    court.settle(1)
    referee.call("collect", court.members[1], court.job_id)
    assert stuck.look(waiting) is not None


def test_v5_claim_that_is_busy_makes_others_wait_no_longer_than_its_match(referee: Twin) -> None:
    """A claim can't be met twice at a time, and is free when its match and window are over."""
    court = open_court(referee, Lie(3), LIE, HONEST).assemble()
    pair = court.start(0, 1)
    busy = court.get_pair(1, 2)
    match = court.name_match(busy)
    assert referee.refused("start_match", court.client, *match) == Reason.CLAIM_MEETING
    court.finish(pair)
    court.wait()
    survivor = 1 if referee.member(court.job_id, court.members[1]).is_contender else 0
    assert court.finish(court.start(survivor, 2)) == (court.members[2], Ending.SCALAR)
