"""Attacks on and with the premium for a job's result (family D)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import pack_args
from moot.contracts.model.answers import ANSWERS_A_BLOCK, MIN_DEPOSIT_WEI, make_subject
from moot.contracts.model.delivery import make_result
from moot.contracts.model.types import NOBODY, ZERO
from moot.contracts.reasons import DemandStatus, PremiumStatus, PromiseStatus, Reason, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import TensorTree, encode_header
from moot.offchain.commitments.tree import Tree
from moot.offchain.disputes.availability.delivery import Sharer, explain_weakness
from moot.offchain.disputes.availability.demands import find_answer, list_demand
from tests.attacks.puppet import SOURCE, Payday
from tests.referee.deliveries import (
    ANSWER_BLOCKS,
    BEYOND,
    DEPOSIT_WEI,
    HISTORY,
    LATE,
    LIAR,
    PLACES,
    PREMIUM_WEI,
    RESULT,
    SHARERS,
    STATE_ROOT,
    STRANGER,
    WINDOW_BLOCKS,
    Deliveries,
    find,
    other_subject,
    prove,
    win_with_premium,
)
from tests.referee.promises import prove as prove_of
from tests.referee.stage import CLIENT

CHUNK, RAGGED, EMPTY = (1, 0, 0), (1, 0, 1), (1, 1, 0)
FIRST, SECOND, THIRD = SHARERS


@pytest.fixture
def both() -> Deliveries:
    """A job that is won, for whose result there is a premium."""
    return win_with_premium()


def test_d1_winner_that_hands_nothing_over_earns_nothing(both: Deliveries) -> None:
    """The client has all of the premium back, whoever asked its deposit; nothing is burned."""
    before = dict(both.balances)
    both.register(FIRST)
    assert both.demand(CLIENT, CHUNK) is None
    assert both.demand(STRANGER, RAGGED) is None
    assert both.call("take", CLIENT, both.result) == Reason.NO_SHARE
    both.block += ANSWER_BLOCKS + 1
    assert both.show(FIRST, CHUNK) == Reason.PROMISE_PAST
    assert both.call("reclaim", CLIENT, both.result, *CHUNK) == Reason.PROMISE_DUE
    assert both.call("break_promise", STRANGER, both.result, *CHUNK) is None
    assert both.call("break_promise", STRANGER, both.result, *RAGGED) == Reason.PROMISE_ENDED
    assert both.register(SECOND) == Reason.PROMISE_ENDED
    assert both.call("withdraw", CLIENT, both.subject) == Reason.NO_SUCH_PREMIUM
    both.block += WINDOW_BLOCKS
    for account in (FIRST, STRANGER):
        assert both.call("take", account, both.result) == Reason.NO_SHARE
    assert both.call("take", CLIENT, both.result) is None
    assert both.call("take", CLIENT, both.result) == Reason.NO_SHARE
    assert both.call("reclaim", CLIENT, both.result, *RAGGED) == Reason.NO_SUCH_DEMAND
    for account, place in ((CLIENT, CHUNK), (STRANGER, RAGGED)):
        assert both.call("reclaim", account, both.result, *place) is None
        assert both.call("reclaim", account, both.result, *place) == Reason.NO_SUCH_DEMAND
    assert both.balances[CLIENT] - before[CLIENT] == PREMIUM_WEI
    assert both.balances[STRANGER] == before[STRANGER]
    assert both.vault.balance_wei == both.vault.burned_wei == 0


def test_d1_part_that_is_shown_in_the_last_block_earns_the_premium(both: Deliveries) -> None:
    """A demand can be answered up to its deadline, and is not broken before the block after it."""
    both.register(FIRST)
    both.demand(CLIENT, CHUNK)
    both.block += ANSWER_BLOCKS
    assert both.call("break_promise", CLIENT, both.result, *CHUNK) == Reason.PROMISE_DUE
    assert both.show(FIRST, CHUNK) is None
    both.block += 1
    assert both.call("break_promise", CLIENT, both.result, *CHUNK) == Reason.NO_SUCH_DEMAND


def test_d2_client_that_demands_of_itself_pays_for_the_answers(both: Deliveries) -> None:
    """A demand costs its deposit, once a part, up to a block; what was shown cannot be asked."""
    both.register(FIRST)
    before, place = dict(both.balances), (both.result, *list_demand(CHUNK, None))
    for value_wei in (0, DEPOSIT_WEI - 1, DEPOSIT_WEI + 1):
        assert both.call("demand", CLIENT, *place, value_wei=value_wei) == Reason.WRONG_DEPOSIT
    both.block += WINDOW_BLOCKS
    for where in PLACES[:4]:
        assert both.demand(CLIENT, where) is None
        assert both.show(FIRST, where) is None
        assert both.demand(CLIENT, where) == Reason.DEMANDED
    assert both.demand(CLIENT, PLACES[4]) is None
    both.block += 1
    assert both.demand(CLIENT, PLACES[5]) == Reason.PROMISE_PAST
    assert both.call("take", FIRST, both.result) == Reason.STILL_DEMANDED
    assert both.show(FIRST, PLACES[4]) is None
    assert both.call("take", FIRST, both.result) is None
    assert before[CLIENT] - both.balances[CLIENT] == 5 * DEPOSIT_WEI
    assert both.balances[FIRST] - before[FIRST] == 5 * DEPOSIT_WEI + PREMIUM_WEI


@pytest.mark.slow  # the crowd rule is that of promises, whose test is a quick one
def test_d2_crowd_of_demands_leaves_time_for_every_answer(both: Deliveries) -> None:
    """However many come at once, so many answers a block are enough, in their order."""
    both.register(FIRST)
    crowd = [*PLACES, *((1, 2, chunk) for chunk in range(2, 39))]
    for place in crowd:
        assert both.demand(CLIENT, place) is None
    sharer = Sharer(FIRST, find)
    both.block += ANSWER_BLOCKS
    first, blocks = both.block, 0
    while calls := [it for it in sharer.act(both.view()) if it.name != "take"]:
        assert len(calls) <= ANSWERS_A_BLOCK
        assert all(both.make(it) is None for it in calls)
        both.block, blocks = both.block + 1, blocks + 1
    assert blocks == -(-len(crowd) // ANSWERS_A_BLOCK)
    assert both.block == first + blocks
    assert both.vault.promises[both.result].status is PromiseStatus.KEPT


def test_d3_sharer_cannot_spoil_what_another_hands_over(both: Deliveries) -> None:
    """Anybody answers for all; a demand that the saboteur makes itself is one like any other."""
    both.register(FIRST)
    both.register(SECOND)
    assert both.demand(SECOND, CHUNK) is None
    assert both.show(FIRST, CHUNK) is None
    assert both.demand(SECOND, RAGGED) is None
    assert both.show(STRANGER, RAGGED) is None
    both.block += WINDOW_BLOCKS + 1
    before = dict(both.balances)
    assert both.call("take", FIRST, both.result) is None
    assert both.balances[FIRST] - before[FIRST] == PREMIUM_WEI // 2


def test_d3_sharers_that_are_all_silent_lose_together(both: Deliveries) -> None:
    """Nobody has a part of a promise that was broken, and nobody gains by it but the client."""
    for sharer in SHARERS:
        both.register(sharer)
    both.demand(THIRD, CHUNK)
    both.block += WINDOW_BLOCKS + 1
    both.call("break_promise", THIRD, both.result, *CHUNK)
    before = both.balances[THIRD]
    for sharer in SHARERS:
        assert both.call("take", sharer, both.result) == Reason.NO_SHARE
    assert both.call("reclaim", THIRD, both.result, *CHUNK) is None
    assert both.balances[THIRD] - before == DEPOSIT_WEI
    assert both.call("take", CLIENT, both.result) is None


def test_d4_nobody_promises_but_sharers_and_nothing_but_the_result(both: Deliveries) -> None:
    """Late, hidden and paid members and strangers do not, nor is another state the result."""
    for account in (LATE, LIAR, STRANGER, CLIENT):
        assert both.register(account) == Reason.NOT_SHARER
    other = Tree(Tag.HISTORY_NODE, [b"\1" * 32, b"\2" * 32, b"\3" * 32])
    proof = tuple(HISTORY.proof(2))
    wrong = [
        both.register(FIRST, other),
        both.register(FIRST, at_1=other.top),
        both.register(FIRST, at_2=b"\3" * 32),
        both.register(FIRST, at_2=b"\2" * 32, at_3=tuple(HISTORY.proof(1))),
        both.register(FIRST, at_2=HISTORY.top, at_3=()),
        both.register(FIRST, at_3=()),
        both.register(FIRST, at_3=(*proof, ZERO)),
        both.register(FIRST, at_3=(ZERO,)),
    ]
    assert set(wrong) == {Reason.NOT_SHOWN}
    assert both.twins.call("collect", SECOND, 0) is None
    assert both.register(SECOND) == Reason.NOT_SHARER
    assert both.register(FIRST) is None
    assert both.twins.call("collect", FIRST, 0) is None
    assert both.register(FIRST) == Reason.NOT_SHARER
    both.block += WINDOW_BLOCKS + 1
    assert both.call("take", FIRST, both.result) is None


def test_d4_nothing_but_what_was_demanded_is_an_answer(both: Deliveries) -> None:
    """Other chunks, lengths, headers and proofs are none, nor is the start of the job."""
    both.register(FIRST)
    for place in (CHUNK, RAGGED, EMPTY):
        both.demand(CLIENT, place)
    tensor = TensorTree(RESULT[0])
    ragged = tensor.chunk(1)
    start = find_answer(both.task, CHUNK).args
    wrong = [
        both.show(FIRST, CHUNK, at_4=ragged),
        both.show(FIRST, CHUNK, at_3=encode_header(1, (35, 2))),
        both.show(FIRST, CHUNK, at_5=()),
        both.show(FIRST, CHUNK, at_6=()),
        both.show(FIRST, RAGGED, at_4=ragged + bytes(256 - len(ragged))),
        both.show(FIRST, EMPTY, at_4=ZERO),
        both.call("show_chunk", FIRST, both.result, *start),
    ]
    assert set(wrong) == {Reason.NOT_SHOWN}
    for place in (CHUNK, RAGGED, EMPTY):
        assert both.show(FIRST, place) is None


def test_d5_members_that_never_register_leave_their_part_to_the_others(both: Deliveries) -> None:
    """One is enough to earn all of it; after the window nobody joins the promise."""
    assert both.register(FIRST) is None
    both.block += WINDOW_BLOCKS
    assert both.register(SECOND) is None
    both.block += 1
    assert both.register(THIRD) == Reason.PROMISE_PAST
    before = dict(both.balances)
    for sharer in (SECOND, FIRST):
        assert both.call("take", sharer, both.result) is None
    paid = {both.balances[it] - before[it] for it in (FIRST, SECOND)}
    assert paid == {PREMIUM_WEI // 2, PREMIUM_WEI - PREMIUM_WEI // 2}


def test_d5_premium_that_nobody_earns_is_taken_back_a_window_after_the_call(
    both: Deliveries,
) -> None:
    """A sharer may promise up to the last block; the client cannot take it before, or twice."""
    own = (both.subject,)
    both.block += 10 * WINDOW_BLOCKS
    assert both.call("withdraw", CLIENT, *own) == Reason.PROMISE_DUE
    assert both.call("call_for", STRANGER, *own) is None
    assert both.call("call_for", CLIENT, *own) == Reason.CALLED_FOR
    both.block += WINDOW_BLOCKS
    assert both.call("withdraw", CLIENT, *own) == Reason.PROMISE_DUE
    both.block += 1
    assert both.register(FIRST) == Reason.PROMISE_PAST
    assert both.call("withdraw", STRANGER, *own) == Reason.NOT_CLIENT
    assert both.call("withdraw", CLIENT, *own) is None
    assert both.call("withdraw", CLIENT, *own) == Reason.NO_SUCH_PREMIUM
    assert both.register(FIRST) == Reason.NO_SUCH_PREMIUM
    assert both.call("call_for", CLIENT, *own) == Reason.NO_SUCH_PREMIUM
    assert both.offer() == Reason.PREMIUM_TOO_LATE


def test_d5_promise_in_the_last_block_of_the_call_begins_a_window(both: Deliveries) -> None:
    """The result can be demanded for a whole window, however late it was promised."""
    both.call("call_for", CLIENT, both.subject)
    both.block += WINDOW_BLOCKS
    assert both.register(FIRST) is None
    assert both.vault.promises[both.result].last_block == both.block + WINDOW_BLOCKS
    assert both.call("call_for", CLIENT, both.subject) == Reason.NO_SUCH_PREMIUM


@pytest.mark.parametrize("status", [Status.EMPTY, Status.VOID])
def test_d6_premium_of_a_job_that_nobody_wins_is_the_clients(status: Status) -> None:
    """It may take it back at once, and never while the job is open."""
    both = Deliveries()
    both.offer()
    assert both.call("withdraw", CLIENT, both.subject) == Reason.PROMISE_DUE
    assert both.call("call_for", CLIENT, both.subject) == Reason.NOT_WON
    assert both.register(FIRST) == Reason.NOT_WON
    if status is Status.VOID:
        legality = both.referee.view("legality_contract")
        referee = both.machine.at(compile_contract("referee"), both.referee.address)
        place = {"sender": legality, "value_wei": 0, "block": both.block}
        data = referee.codec.encode_call("annul", (0,))
        assert both.machine.call(referee.raw, data, **place).reason is None
        store = both.twins.store
        store.jobs[0] = replace(store.jobs[0], status=Status.VOID, is_client_owed=True)
    else:
        both.settle()
    assert both.twins.store.jobs[0].status is status
    assert both.register(FIRST) == Reason.NOT_WON
    assert both.call("call_for", CLIENT, both.subject) == Reason.NOT_WON
    assert both.call("withdraw", CLIENT, both.subject) is None
    assert both.vault.balance_wei == 0


def test_d6_premium_is_offered_once_by_the_client_while_the_job_is_open() -> None:
    """Members know what there is before they collect; no premium waits for a job to come."""
    both = Deliveries()
    usual = (DEPOSIT_WEI, ANSWER_BLOCKS, WINDOW_BLOCKS)

    def offer(sender: str, *terms: int, wei: int = PREMIUM_WEI) -> str | None:
        return both.call("offer", sender, both.subject, *terms, value_wei=wei)

    assert offer(STRANGER, *usual) == Reason.NOT_CLIENT
    absent = replace(both.subject, job_id=7)
    assert both.call("offer", CLIENT, absent, *usual, value_wei=1) == Reason.NOT_CLIENT
    nowhere = replace(both.subject, referee=STRANGER)
    assert both.call("offer", CLIENT, nowhere, *usual, value_wei=1) == Reason.NO_REASON
    absurd = [
        offer(CLIENT, MIN_DEPOSIT_WEI - 1, ANSWER_BLOCKS, WINDOW_BLOCKS),
        offer(CLIENT, 1 << 80, ANSWER_BLOCKS, WINDOW_BLOCKS),
        offer(CLIENT, *usual, wei=2 * DEPOSIT_WEI - 1),
        offer(CLIENT, *usual, wei=1 << 80),
        offer(CLIENT, DEPOSIT_WEI, 0, WINDOW_BLOCKS),
        offer(CLIENT, DEPOSIT_WEI, (1 << 20) + 1, WINDOW_BLOCKS),
        offer(CLIENT, DEPOSIT_WEI, ANSWER_BLOCKS, 0),
        offer(CLIENT, DEPOSIT_WEI, ANSWER_BLOCKS, (1 << 20) + 1),
    ]
    assert set(absurd) == {Reason.ABSURD_PREMIUM}
    assert offer(CLIENT, *usual, wei=2 * DEPOSIT_WEI) is None
    assert offer(CLIENT, *usual) == Reason.OFFERED
    widest, most_wei = Deliveries(), (1 << 80) - 1
    limits = ((most_wei - 1) // 2, 1 << 20, 1 << 20)
    assert widest.call("offer", CLIENT, widest.subject, *limits, value_wei=most_wei) is None
    shortest = Deliveries()
    limits = (MIN_DEPOSIT_WEI, 1, 1)
    assert shortest.call("offer", CLIENT, shortest.subject, *limits, value_wei=PREMIUM_WEI) is None
    late = Deliveries()
    late.win()
    assert late.offer() == Reason.PREMIUM_TOO_LATE


def test_d6_one_jobs_premium_never_pays_for_another(both: Deliveries) -> None:
    """Each job's money is its own: what is promised of one is nothing of another's."""
    terms = replace(both.terms, start_root=b"\5" * 32)
    both.twins.call("open_job", CLIENT, terms, value_wei=0)
    other = make_subject(terms, both.twins.store.address, 1)
    usual = (DEPOSIT_WEI, ANSWER_BLOCKS, WINDOW_BLOCKS)
    assert both.call("offer", CLIENT, other, *usual, value_wei=3 * PREMIUM_WEI) is None
    shown = (HISTORY.top, STATE_ROOT, tuple(HISTORY.proof(2)))
    assert both.call("register", FIRST, other, *shown) == Reason.NOT_WON
    both.register(FIRST)
    both.block += WINDOW_BLOCKS + 1
    assert both.call("take", FIRST, make_result(other, STATE_ROOT)) == Reason.NO_SUCH_PROMISE
    before = both.balances[FIRST]
    assert both.call("take", FIRST, both.result) is None
    assert both.balances[FIRST] - before == PREMIUM_WEI
    assert both.vault.balance_wei == 3 * PREMIUM_WEI


def test_d7_calls_about_a_job_that_a_reorganisation_has_replaced_are_refused(
    both: Deliveries,
) -> None:
    """Each call names the job and what it commits to, and each demand names the result, too."""
    both.register(FIRST)
    both.demand(CLIENT, CHUNK)
    job, state = other_subject(both.subject), other_subject(both.result)
    shown = (HISTORY.top, STATE_ROOT, tuple(HISTORY.proof(2)))
    usual = (DEPOSIT_WEI, ANSWER_BLOCKS, WINDOW_BLOCKS)
    assert both.call("offer", CLIENT, job, *usual, value_wei=PREMIUM_WEI) == Reason.NOT_OF_JOB
    assert both.call("register", SECOND, job, *shown) == Reason.NO_SUCH_PREMIUM
    for name in ("call_for", "withdraw"):
        assert both.call(name, CLIENT, job) == Reason.NO_SUCH_PREMIUM
    assert both.call("demand", CLIENT, state, *list_demand(CHUNK, None), value_wei=DEPOSIT_WEI) == (
        Reason.NO_SUCH_PROMISE
    )
    move = find(CHUNK)
    assert both.call(move.call, FIRST, state, *move.args) == Reason.NO_SUCH_PROMISE
    for name in ("break_promise", "reclaim"):
        assert both.call(name, CLIENT, state, *CHUNK) == Reason.NO_SUCH_PROMISE
    assert both.call("take", FIRST, state) == Reason.NO_SUCH_PROMISE
    assert both.show(FIRST, CHUNK) is None


def test_d8_receiver_that_calls_again_is_paid_once(both: Deliveries, tmp_path: Path) -> None:
    """A contract that answers, and shows the same again while it is paid, gets one deposit."""
    both.register(FIRST)
    both.demand(CLIENT, CHUNK)
    both.demand(CLIENT, RAGGED)
    (tmp_path / "puppet.vy").write_text(SOURCE)
    puppet = both.machine.deploy(compile_contract("puppet", tmp_path), both.contract.address)
    move = find(CHUNK)
    data = both.contract.codec.encode_call(move.call, pack_args((both.result, *move.args)))
    place: dict[str, Any] = {"sender": NOBODY, "value_wei": 0, "block": both.block}

    def tell(name: str, *args: object) -> str | None:
        return both.machine.call(puppet.raw, puppet.codec.encode_call(name, args), **place).reason

    for payday, paid_wei in ((Payday.REFUSE, 0), (Payday.CALL, DEPOSIT_WEI)):
        assert tell("arm", payday, [data]) is None
        assert (tell("play", [both.contract.address], [data]) is None) == (paid_wei != 0)
        assert both.machine.balance(puppet.address) == paid_wei
    result = both.machine.call(puppet.raw, puppet.codec.encode_call("successes", ()), **place)
    assert int.from_bytes(result.output, "big") == 0
    demand = both.read_demand((both.result, *CHUNK))
    assert demand is not None
    assert demand.status is DemandStatus.SHOWN


FALSE_REFEREE = """
# pragma version 0.4.3

struct Job:
    head: uint256
    scope: uint256
    tally: uint256
    client: address
    verifier: address
    reward_wei: uint256
    layout: bytes32
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32

job: Job
member: uint256

@external
def pretend(job: Job, member: uint256):
    self.job = job
    self.member = member

@external
@view
def jobs(job_id: uint256) -> Job:
    return self.job

@external
@view
def members(job_id: uint256, account: address) -> uint256:
    return self.member
"""


def test_d8_false_referee_moves_no_money_but_its_own_premiums(
    both: Deliveries, tmp_path: Path
) -> None:
    """A referee whose jobs change cannot promise one result twice, and so touch its deposits."""
    (tmp_path / "false_referee.vy").write_text(FALSE_REFEREE)
    false = both.machine.deploy(compile_contract("false_referee", tmp_path))
    member = int.from_bytes(both.twins.store.members[0, FIRST].key, "big") << 32 | 2
    place: dict[str, Any] = {"value_wei": 0, "block": both.block}

    def pretend(status: Status, operators: int) -> None:
        scope = operators | 3 << 32 | 3 << 96 | 1 << 160
        job = (1, scope, status << 168, CLIENT, NOBODY, 0, *[ZERO] * 4)
        data = false.codec.encode_call("pretend", (job, member))
        assert both.machine.call(false.raw, data, sender=NOBODY, **place).reason is None

    def call(name: str, sender: str, *args: Any, wei: int = 0) -> str | None:
        data = both.contract.codec.encode_call(name, pack_args(args))
        return both.machine.call(
            both.contract.raw, data, sender=sender, value_wei=wei, block=both.block
        ).reason

    jobs = [
        replace(
            both.subject,
            referee=false.address,
            operators=operators,
            batch_slots=0,
            program_top=ZERO,
            start_root=ZERO,
            data_top=ZERO,
        )
        for operators in (5, 6)
    ]
    for job, deposit_wei in zip(jobs, (MIN_DEPOSIT_WEI, 9 * MIN_DEPOSIT_WEI), strict=True):
        pretend(Status.OPEN, job.operators)
        terms = (deposit_wei, ANSWER_BLOCKS, WINDOW_BLOCKS)
        assert call("offer", CLIENT, job, *terms, wei=PREMIUM_WEI) is None
    pretend(Status.WON, 5)
    shown = (HISTORY.top, STATE_ROOT, tuple(HISTORY.proof(2)))
    assert call("register", FIRST, jobs[0], *shown) is None
    result = make_result(jobs[0], STATE_ROOT)
    assert result == make_result(jobs[1], STATE_ROOT)
    assert call("demand", STRANGER, result, *list_demand(CHUNK, None), wei=MIN_DEPOSIT_WEI) is None
    assert call("register", FIRST, jobs[1], *shown) == Reason.REGISTERED
    assert call("register", SECOND, jobs[1], *shown) == Reason.PROMISED
    promise = both.read_promise(result)
    assert promise is not None
    assert (promise.deposit_wei, promise.open_demands) == (MIN_DEPOSIT_WEI, 1)


def test_d8_sharer_relies_on_no_weak_premium(both: Deliveries) -> None:
    """It does not promise where there is no time to answer, or its part does not pay its gas."""
    premium = both.view().premium
    assert premium.status is PremiumStatus.OFFERED
    assert explain_weakness(premium, 3, 50 * 10**9) == ""
    assert "blocks to answer" in explain_weakness(replace(premium, answer_blocks=3), 3, 10**9)
    assert "a part of it is" in explain_weakness(premium, 100, 50 * 10**9)


def test_d10_chunk_that_does_not_exist_is_not_demanded(both: Deliveries) -> None:
    """The client demands each chunk of the result, and none behind a tensor's end."""
    both.register(FIRST)
    beyond = (*BEYOND, (1, 0, 1 << 55), (1, 1, (1 << 55) - 1), (1, 2, 1 << 248))
    assert {both.demand(CLIENT, it) for it in beyond} == {Reason.NO_SUCH_PART}
    own, start = prove(RAGGED), prove_of(both.task, RAGGED)
    assert own is not None
    assert start is not None
    false = [replace(own, header=encode_header(1, (700,))), start]
    for place in (RAGGED, (1, 0, 2)):
        args = [(both.result, *list_demand(place, it)) for it in false]
        refused = [both.call("demand", CLIENT, *it, value_wei=DEPOSIT_WEI) for it in args]
        assert set(refused) == {Reason.NOT_SHOWN}
    assert not both.vault.demands
    for place in PLACES:
        assert both.demand(CLIENT, place) is None
        assert both.show(FIRST, place) is None
