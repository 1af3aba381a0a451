"""Receipts and their service, on the models and on the bytecode in lock-step."""

from dataclasses import replace
from typing import Any

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_referee, deploy_service
from moot.contracts.model.bonds import Balance, Batch
from moot.contracts.model.receipts import Domain, Receipt
from moot.contracts.model.service import DEFUND_BLOCKS, MAX_BATCH, UNSTAKE_BLOCKS
from moot.contracts.model.types import MAX_BLOCKS, MAX_BOND_WEI, MIN_BOND_WEI, NOBODY, ZERO
from moot.contracts.reasons import LeafMode, Reason, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from tests.lockstep.contracts import Contract
from tests.machines.base import Deployed, Machine
from tests.quick import every, only
from tests.referee.disputes import LIE, Dispute
from tests.referee.services import (
    ACCOUNTS,
    ANSWER,
    CHALLENGERS,
    CLIENT,
    HISTORY,
    OTHER,
    PROVIDER,
    RIVAL,
    SALT,
    SLOTS,
    STATE,
    STRANGER,
    TRUTH,
    ChallengeContract,
    Services,
    make_receipt,
    sign,
)

BOND = MIN_BOND_WEI
FIRST, SECOND = CHALLENGERS[:2]


@pytest.fixture
def both() -> Services:
    """A service, twice."""
    return Services(ChallengeContract(ACCOUNTS))


def test_a_bond_leaves_a_week_after_it_was_called_back(both: Services) -> None:
    """It is liable up to the last block, and what is called back later takes the rest with it."""
    assert both.call("stake", PROVIDER) == Reason.NO_AMOUNT
    assert both.call("unstake", PROVIDER, 1) == Reason.NOT_THAT_MUCH
    assert both.stake(10) is None
    assert both.call("unstake", PROVIDER, 0) == Reason.NO_AMOUNT
    assert both.call("unstake", PROVIDER, 11) == Reason.NOT_THAT_MUCH
    assert both.call("take_stake", PROVIDER) == Reason.NOTHING_DUE
    assert both.call("unstake", PROVIDER, 4) is None
    both.block += 5
    assert both.call("unstake", PROVIDER, 7) == Reason.NOT_THAT_MUCH
    assert both.call("unstake", PROVIDER, 1) is None
    last = both.block + UNSTAKE_BLOCKS
    assert both.model.stakes[PROVIDER] == Balance(5, 5, last)
    for block, bond_wei in ((last, 10), (last + 1, 5)):
        assert both.get_bond(PROVIDER, block) == bond_wei
    both.block = last
    assert both.call("take_stake", PROVIDER) == Reason.NOT_LEFT
    both.block += 1
    assert both.call("take_stake", STRANGER) == Reason.NOTHING_DUE
    assert both.call("take_stake", PROVIDER) is None
    assert both.call("take_stake", PROVIDER) == Reason.NOTHING_DUE
    assert both.model.stakes[PROVIDER] == Balance(5)
    assert both.get_bond(STRANGER, 0) == 0


def test_vouchers_pay_what_no_earlier_one_has(both: Services) -> None:
    """They are cumulative: the last is enough, in any order, as far as the balance goes."""
    assert both.redeem(5) == Reason.NOTHING_DUE
    assert both.call("fund", CLIENT, PROVIDER) == Reason.NO_AMOUNT
    assert both.call("fund", CLIENT, PROVIDER, value_wei=1) is None
    assert both.call("fund", CLIENT, PROVIDER, value_wei=9) is None
    assert both.redeem(1) is None
    assert both.redeem(5) is None
    assert both.redeem(5) == Reason.NOTHING_DUE
    assert both.redeem(4) == Reason.NOTHING_DUE
    assert both.redeem(0) == Reason.NOTHING_DUE
    assert both.redeem(7) is None
    assert both.call("defund", CLIENT, PROVIDER, 4) == Reason.NOT_THAT_MUCH
    assert both.call("defund", CLIENT, PROVIDER, 2) is None
    both.block += DEFUND_BLOCKS
    assert both.call("take_funds", CLIENT, PROVIDER) == Reason.NOT_LEFT
    assert both.redeem(9) is None
    assert both.model.funds[CLIENT, PROVIDER].all_wei == 1
    both.block += 1
    assert both.call("take_funds", CLIENT, RIVAL) == Reason.NOTHING_DUE
    assert both.call("take_funds", CLIENT, PROVIDER) is None
    assert both.redeem(20) == Reason.NOTHING_DUE
    assert both.call("fund", CLIENT, PROVIDER, value_wei=100) is None
    assert both.redeem(20) is None
    assert both.model.redeemed[CLIENT, PROVIDER] == 20
    assert both.model.funds[CLIENT, PROVIDER] == Balance(89, 0, 0)


def test_a_balance_is_with_one_provider(both: Services) -> None:
    """No provider redeems what was promised to another, nor of another client."""
    assert both.call("fund", CLIENT, PROVIDER, value_wei=10) is None
    signature = both.sign_voucher(CLIENT, PROVIDER, 5)
    assert both.call("redeem", RIVAL, CLIENT, 5, signature) == Reason.BAD_SIGNATURE
    assert both.call("redeem", PROVIDER, STRANGER, 5, signature) == Reason.BAD_SIGNATURE
    assert both.call("redeem", PROVIDER, CLIENT, 6, signature) == Reason.BAD_SIGNATURE
    assert both.redeem(5, provider=RIVAL) == Reason.NOTHING_DUE
    assert both.call("redeem", PROVIDER, CLIENT, 5, signature) is None


def test_batches_follow_each_other(both: Services) -> None:
    """The next begins where the last has ended, and none is empty or larger than trees are."""
    assert both.call("publish", PROVIDER, 1, 1, TRUTH) == Reason.NOT_NEXT
    assert both.call("publish", PROVIDER, 0, 0, TRUTH) == Reason.ABSURD_BATCH
    assert both.call("publish", PROVIDER, 0, MAX_BATCH + 1, TRUTH) == Reason.ABSURD_BATCH
    assert both.call("publish", PROVIDER, 0, 3, TRUTH) is None
    for first in (0, 2, 4):
        assert both.call("publish", PROVIDER, first, 1, TRUTH) == Reason.NOT_NEXT
    assert both.call("publish", PROVIDER, 3, MAX_BATCH, ZERO) is None
    assert both.call("publish", RIVAL, 0, 1, TRUTH) is None


def test_a_challenge_begins_a_match(both: Services) -> None:
    """Both bonds are in it, both members have revealed, and the client is the receipt's."""
    both.stake(3 * BOND)
    receipt = make_receipt(stake_wei=BOND + 1, total_wei=BOND + 1)
    assert both.challenge(receipt) is None
    job = both.store.jobs[0]
    assert (job.client, job.terms) == (CLIENT, receipt.make_terms(BOND + 1))
    assert (job.opened_block, job.window_end) == (both.block, both.block + 20)
    assert {m.standing for m in both.store.members.values()} == {Standing.REVEALED}
    assert both.store.balance_wei == 2 * BOND + 2
    assert both.model.stakes[PROVIDER].standing_wei == 2 * BOND - 1
    assert both.challenge(receipt) == Reason.BEING_CHALLENGED


@pytest.mark.parametrize("stake_wei", [0, 1, BOND - 1, BOND])
def test_a_small_stake_is_challenged_with_the_least_bond(both: Services, stake_wei: int) -> None:
    """It pays for the match, whatever the answer is backed with."""
    both.stake(BOND)
    receipt = make_receipt(stake_wei=stake_wei)
    for value_wei in (0, BOND - 1, BOND + 1):
        assert both.challenge(receipt, value_wei=value_wei) == Reason.WRONG_VALUE
    assert both.challenge(receipt) is None
    assert both.store.jobs[0].terms.bond_wei == BOND


def test_the_rest_of_a_bond_is_challenged_and_the_rest_of_the_value_goes_back(
    both: Services,
) -> None:
    """A stake above what is left is no shield, unless not even the least bond is left."""
    both.stake(BOND + 5)
    receipt = make_receipt(stake_wei=9 * BOND, total_wei=9 * BOND)
    before = both.balances[FIRST]
    assert both.challenge(receipt, value_wei=BOND + 5) == Reason.WRONG_VALUE
    assert both.challenge(receipt) is None
    assert before - both.balances[FIRST] == BOND + 5
    assert both.model.balance_wei == 0
    both.stake(BOND - 1)
    assert both.challenge(make_receipt(number=1)) == Reason.BOND_EXHAUSTED
    assert both.stake(1) is None
    assert both.challenge(make_receipt(number=1)) is None


def test_what_leaves_is_challenged_after_what_stands(both: Services) -> None:
    """It is liable until it is taken, even when it could have been."""
    both.stake(3 * BOND)
    both.call("unstake", PROVIDER, 2 * BOND)
    assert both.challenge(make_receipt()) is None
    assert both.model.stakes[PROVIDER].leaving_wei == 2 * BOND
    assert both.challenge(make_receipt(number=1, stake_wei=BOND // 2)) is None
    assert both.model.stakes[PROVIDER].leaving_wei == BOND
    both.block += UNSTAKE_BLOCKS + 1
    late = make_receipt(number=2, issued_block=both.block, last_block=both.block + 9)
    assert both.challenge(late) is None
    assert both.call("take_stake", PROVIDER) == Reason.NOTHING_DUE


UNSOUND: tuple[dict[str, Any], ...] = (
    {"state_slots": 0},
    {"state_slots": 2**16 + 1, "operators": 2**17},
    {"batch_slots": 2**16 + 1},
    {"operators": 2},
    {"operators": 2**20 + 1},
    {"answer_slot": 3},
    {"steps": 0},
    {"steps": 2**32 + 1},
    {"checkpoint_every": 0},
    {"checkpoint_every": 9},
    {"window_blocks": 0},
    {"window_blocks": MAX_BLOCKS + 1},
    {"clock_blocks": MAX_BLOCKS + 1},
    {"clock_blocks": 0, "increment_blocks": 0},
    {"increment_blocks": 0},
    {"increment_blocks": 11},
    {"stake_wei": MAX_BOND_WEI + 1, "total_wei": MAX_BOND_WEI + 1},
    {"total_wei": BOND - 1},
    {"released_wei": 1},
    {"issued_block": 101},
    {"issued_block": 1, "last_block": UNSTAKE_BLOCKS + 2},
)
SOUND: tuple[dict[str, Any], ...] = (
    {"state_slots": 1, "answer_slot": 0, "operators": 1},
    {"state_slots": 2**16, "operators": 2**20, "batch_slots": 2**16, "answer_slot": 2**16 - 1},
    {"steps": 2**32, "checkpoint_every": 2**32},
    {"steps": 1, "checkpoint_every": 1},
    {"window_blocks": MAX_BLOCKS, "clock_blocks": MAX_BLOCKS, "increment_blocks": MAX_BLOCKS},
    {"window_blocks": 1, "clock_blocks": 1, "increment_blocks": 1},
    {"stake_wei": MAX_BOND_WEI, "total_wei": 2**128 - 1, "released_wei": 2**128 - MAX_BOND_WEI - 1},
    {"issued_block": 2, "last_block": 2},
    {"issued_block": 2**64 - 2 - UNSTAKE_BLOCKS, "last_block": 2**64 - 2},
    {"issued_block": 2**64 - 1, "last_block": 2**64 - 1},
    {"issued_block": 0, "last_block": UNSTAKE_BLOCKS},
    {"price_wei": 2**96 - 1, "number": 2**64 - 1, "client": NOBODY},
)


def test_receipts_are_sound_as_jobs_are(both: Services) -> None:
    """All counts, windows and clocks are within the bounds of a job's, and the stake is backed."""
    both.stake(2 * MAX_BOND_WEI)
    for changes in UNSOUND:
        assert both.challenge(make_receipt(**changes)) == Reason.ABSURD_RECEIPT, changes
        assert both.refute(make_receipt(answer=OTHER, **changes)) == Reason.ABSURD_RECEIPT
    both.block = 1
    for changes in SOUND:
        both.block = 1
        assert both.challenge(make_receipt(**changes)) is None, changes


def test_only_what_was_announced_is_used_and_once(both: Services) -> None:
    """In a later block, by who has announced it, with the same subject, salt, chain and service."""
    both.stake(9 * BOND)
    receipt = make_receipt()
    args = (receipt, both.sign(receipt), TRUTH)
    digest = receipt.hash(both.model.domain)
    assert both.announce(FIRST, digest, TRUTH) is None
    both.block -= 1
    assert both.call("challenge", FIRST, *args, SALT, value_wei=BOND) == Reason.NOT_ANNOUNCED
    both.block += 1
    for sender, changed in (
        (SECOND, (*args, SALT)),
        (FIRST, (*args[:2], OTHER, SALT)),
        (FIRST, (*args, ZERO)),
        (FIRST, (make_receipt(number=1), *args[1:], SALT)),
    ):
        refusal = both.call("challenge", sender, *changed, value_wei=BOND)
        assert refusal == Reason.NOT_ANNOUNCED
    assert both.call("challenge", FIRST, *args, SALT, value_wei=BOND) is None
    assert both.call("challenge", FIRST, *args, SALT, value_wei=BOND) == Reason.NOT_ANNOUNCED


def test_an_announcement_becomes_no_younger(both: Services) -> None:
    """Whoever repeats it, who has announced it first can use it on."""
    both.stake(BOND)
    receipt = make_receipt()
    both.announce(FIRST, receipt.hash(both.model.domain), TRUTH)
    digest = next(iter(both.model.announced))
    assert both.call("commit", STRANGER, digest) is None
    args = (receipt, both.sign(receipt), TRUTH, SALT)
    assert both.call("challenge", FIRST, *args, value_wei=BOND) is None


def spoil(signature: bytes) -> list[bytes]:
    """Return what is no signature though another is: other parts, the second form, the zero key."""
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    s = order - int.from_bytes(signature[32:64], "big")
    flipped = bytes([55 - signature[64]])
    return [
        signature[:32] + s.to_bytes(32, "big") + flipped,
        signature[:64] + flipped,
        signature[:64] + bytes([signature[64] - 27]),
        signature[:64],
        b"",
        bytes(65),
        bytes(64) + b"\x1b",
        b"\xff" * 32 + signature[32:],
        signature[32:64] + signature[:32] + signature[64:],
    ]


def test_signatures_have_one_form(both: Services) -> None:
    """Of a receipt, of both of a conflict, and of a voucher."""
    both.stake(BOND)
    both.call("fund", CLIENT, PROVIDER, value_wei=10)
    receipt, other = make_receipt(), make_receipt(price_wei=8)
    right = both.sign(receipt)
    for wrong in (*spoil(right), both.sign(other), both.sign(receipt, RIVAL)):
        assert both.challenge(receipt, signature=wrong) == Reason.BAD_SIGNATURE
        lie = make_receipt(answer=OTHER)
        assert both.refute(lie, signature=wrong) == Reason.BAD_SIGNATURE
        for signatures in ((wrong, both.sign(other)), (right, wrong)):
            if wrong == both.sign(other) and signatures[1] == wrong:
                continue
            refusal = both.prove_conflict(receipt, other, signatures=signatures)
            assert refusal == Reason.BAD_SIGNATURE
    for wrong in spoil(both.sign_voucher(CLIENT, PROVIDER, 5)):
        assert both.redeem(5, signature=wrong) == Reason.BAD_SIGNATURE
    nobodys = make_receipt(provider=NOBODY)
    assert both.challenge(nobodys, signature=bytes(65)) == Reason.BAD_SIGNATURE
    assert both.challenge(nobodys, signature=right) == Reason.BAD_SIGNATURE
    assert both.challenge(receipt) is None


def test_receipts_of_another_chain_or_service_are_worth_nothing(both: Services) -> None:
    """The domain is in the digest: so are its name and version, by EIP-712."""
    both.stake(BOND)
    receipt, domain = make_receipt(), both.model.domain
    for other in (
        replace(domain, chain_id=domain.chain_id + 1),
        replace(domain, service=STRANGER),
        Domain(0, NOBODY),
    ):
        signature = sign(receipt.hash(other), PROVIDER)
        assert both.challenge(receipt, signature=signature) == Reason.BAD_SIGNATURE


def test_another_answer_is_a_fault(both: Services) -> None:
    """Half of the bond, what is leaving too, is the reporter's, the other half is burned."""
    both.stake(3 * BOND + 1)
    both.call("unstake", PROVIDER, BOND)
    lie = make_receipt(answer=OTHER)
    assert both.refute(make_receipt(), root=ANSWER) == Reason.NO_FAULT
    for changes in (
        {"state": OTHER},
        {"history_proof": ()},
        {"history_proof": (TRUTH,)},
        {"history_proof": (*HISTORY.proof(1), TRUTH)},
        {"root": TRUTH},
        {"slot_proof": ()},
        {"slot_proof": tuple(SLOTS.proof(0))},
        {"slot_proof": (*SLOTS.proof(1), TRUTH)},
    ):
        assert both.refute(lie, **changes) == Reason.UNPROVEN_FAULT, changes
    for changed in ({"steps": 16}, {"checkpoint_every": 8}, {"answer_slot": 0}, {"state_slots": 4}):
        assert both.refute(make_receipt(answer=OTHER, **changed)) == Reason.UNPROVEN_FAULT
    before, burned_wei = both.balances[STRANGER], both.model.burned_wei
    assert both.refute(lie) is None
    assert both.balances[STRANGER] - before == 3 * BOND // 2
    assert both.model.burned_wei - burned_wei == 3 * BOND // 2 + 1
    assert both.model.stakes[PROVIDER] == Balance(is_at_fault=True)


def test_one_checkpoint_and_one_slot_need_no_siblings(both: Services) -> None:
    """A history of one state is that state, and a state of one tensor its tensor's root's."""
    receipt = make_receipt(steps=5, checkpoint_every=5, history=STATE, answer=OTHER)
    assert both.refute(receipt, history_proof=()) is None


@pytest.mark.parametrize(("steps", "every_steps"), [(5, 4), (7, 4), (8, 4), (2, 1), (5, 3)])
def test_the_last_interval_may_be_shorter(both: Services, steps: int, every_steps: int) -> None:
    """Two checkpoints are two, however many steps the second interval has."""
    receipt = make_receipt(steps=steps, checkpoint_every=every_steps, answer=OTHER)
    assert both.refute(receipt) is None


def test_who_is_at_fault_backs_nothing_any_more(both: Services) -> None:
    """It cannot stake or be challenged, and no second fault pays anybody."""
    both.stake(2 * BOND)
    assert both.challenge(make_receipt(number=5)) is None
    assert both.refute(make_receipt(answer=OTHER)) is None
    assert both.stake(BOND) == Reason.AT_FAULT
    assert both.call("publish", PROVIDER, 0, 1, TRUTH) is None
    assert both.call("unstake", PROVIDER, 1) == Reason.NOT_THAT_MUCH
    assert both.call("take_stake", PROVIDER) == Reason.NOTHING_DUE
    assert both.challenge(make_receipt(number=1)) == Reason.BOND_EXHAUSTED
    assert both.refute(make_receipt(answer=OTHER)) == Reason.AT_FAULT
    other = make_receipt(answer=OTHER)
    assert both.prove_conflict(make_receipt(), other) == Reason.AT_FAULT
    # What is in a match goes on as ever, and vouchers are the client's word.
    both.call("fund", CLIENT, PROVIDER, value_wei=10)
    assert both.redeem(3) is None


def test_the_odd_wei_of_a_fault_is_burned(both: Services) -> None:
    """Of one wei nothing is the reporter's."""
    both.stake(1)
    assert both.prove_conflict(make_receipt(), make_receipt(price_wei=0)) is None
    assert both.model.burned_wei == 1


def test_a_fault_without_a_bond_is_noted(both: Services) -> None:
    """Nobody is paid, and the provider never stakes."""
    assert both.prove_conflict(make_receipt(), make_receipt(price_wei=0)) is None
    assert both.stake(1) == Reason.AT_FAULT


CONFLICTS: tuple[tuple[dict[str, int], dict[str, int], bool], ...] = (
    ({}, {"number": 0, "price_wei": 1}, True),
    ({}, {"number": 1, "total_wei": 30}, False),
    ({}, {"number": 1, "total_wei": 31}, True),
    ({}, {"number": 1, "total_wei": 29}, True),
    ({}, {"number": 2, "total_wei": 30}, False),
    ({}, {"number": 2, "total_wei": 29}, True),
    ({}, {"number": 2, "total_wei": 99}, False),
    ({}, {"number": 1, "total_wei": 30, "released_wei": 9, "issued_block": 20}, False),
    ({}, {"number": 1, "total_wei": 30, "released_wei": 10, "issued_block": 20}, True),
    ({}, {"number": 1, "total_wei": 30, "released_wei": 10, "issued_block": 21}, False),
    ({"total_wei": 0, "stake_wei": 0}, {"number": 5, "total_wei": 20, "issued_block": 20}, True),
    ({"number": 2**64 - 2}, {"number": 2**64 - 1, "total_wei": 30}, False),
    ({"number": 2**64 - 2}, {"number": 2**64 - 1, "total_wei": 2**128 - 1}, True),
)


def make_pair(first: dict[str, int], second: dict[str, int]) -> tuple[Receipt, Receipt]:
    """Return two receipts, of stakes of 10 and 20, of which the first ends with block 20."""
    usual = {"stake_wei": 10, "total_wei": 10, "issued_block": 5, "last_block": 20}
    other = {"stake_wei": 20, "total_wei": 30, "issued_block": 9, "last_block": 40}
    return make_receipt(**(usual | first)), make_receipt(**(other | second))


@pytest.mark.parametrize(("first", "second", "is_fault"), CONFLICTS)
def test_receipts_that_do_not_go_together_are_a_fault(
    both: Services, first: dict[str, int], second: dict[str, int], *, is_fault: bool
) -> None:
    """One number twice, a total that does not follow, and an end that had not come."""
    pair = make_pair(first, second)
    both.stake(BOND)
    expected = None if is_fault else Reason.NO_FAULT
    if pair[0].number != pair[1].number:
        assert both.prove_conflict(pair[1], pair[0]) == Reason.NO_FAULT
    assert both.prove_conflict(pair[0], pair[0]) == Reason.NO_FAULT
    assert both.prove_conflict(*pair) == expected


def test_receipts_of_two_providers_are_in_no_conflict(both: Services) -> None:
    """Each has numbers of its own."""
    other = make_receipt(provider=RIVAL)
    assert both.prove_conflict(make_receipt(), other) == Reason.NO_FAULT


def test_another_receipt_under_a_published_number_is_a_fault(both: Services) -> None:
    """Only in a batch of that provider, at that number, with its proof."""
    receipts = [make_receipt(number=number) for number in range(2, 7)]
    digests = [it.hash(both.model.domain) for it in receipts]
    tree = Tree(Tag.RECEIPT_NODE, digests)
    both.stake(BOND)
    assert both.call("publish", PROVIDER, 0, 2, TRUTH) is None
    assert both.call("publish", PROVIDER, 2, 5, tree.top) is None
    batch = Batch(2, 5, tree.top)
    proof = tuple(tree.proof(1))
    lie = make_receipt(number=3, answer=OTHER)
    assert both.prove_unlisted(receipts[1], batch, digests[1], proof) == Reason.NO_FAULT
    for changed in (replace(batch, count=6), replace(batch, root=TRUTH), replace(batch, first=3)):
        assert both.prove_unlisted(lie, changed, digests[1], proof) == Reason.NO_SUCH_BATCH
    for number in (2, 4, 7, 2**64 - 1):
        wrong = make_receipt(number=number, answer=OTHER)
        refusal = both.prove_unlisted(wrong, batch, digests[1], proof)
        assert refusal == Reason.UNPROVEN_FAULT
    for number in (0, 1):
        wrong = make_receipt(number=number, answer=OTHER)
        assert both.prove_unlisted(wrong, batch, digests[1], proof) == Reason.NO_FAULT
    for wrong_proof in ((), proof[:-1], (*proof, TRUTH)):
        refusal = both.prove_unlisted(lie, batch, digests[1], wrong_proof)
        assert refusal == Reason.UNPROVEN_FAULT
    assert both.prove_unlisted(lie, batch, OTHER, proof) == Reason.UNPROVEN_FAULT
    forged = both.sign(lie, RIVAL)
    refusal = both.prove_unlisted(lie, batch, digests[1], proof, signature=forged)
    assert refusal == Reason.BAD_SIGNATURE
    rival = make_receipt(number=3, provider=RIVAL)
    assert both.prove_unlisted(rival, batch, digests[1], proof) == Reason.NO_SUCH_BATCH
    assert both.prove_unlisted(lie, batch, digests[1], proof) is None


def test_calls_that_take_no_value_take_none(both: Services) -> None:
    """Whoever sends some by mistake keeps it."""
    for name, args in (("unstake", (1,)), ("take_stake", ()), ("commit", (TRUTH,))):
        assert both.call(name, PROVIDER, *args, value_wei=1) == Reason.NO_REASON


# Jobs that begin with a match.

ENTRY = make_receipt().make_terms(BOND)
BAD_ENTRIES: tuple[tuple[dict[str, Any], Reason], ...] = (
    ({"bond_wei": BOND - 1}, Reason.BOND_TOO_SMALL),
    ({"bond_wei": MAX_BOND_WEI + 1}, Reason.ABSURD_TERMS),
    ({"commit_blocks": 1}, Reason.ABSURD_TERMS),
    ({"reveal_blocks": 1}, Reason.ABSURD_TERMS),
    ({"leaf_mode": LeafMode.OPERATOR}, Reason.ABSURD_TERMS),
    ({"verifier": STRANGER}, Reason.ABSURD_TERMS),
    ({"window_blocks": 0}, Reason.ABSURD_TERMS),
    ({"window_blocks": MAX_BLOCKS + 1}, Reason.ABSURD_TERMS),
    ({"clock_blocks": MAX_BLOCKS + 1}, Reason.ABSURD_TERMS),
    ({"clock_blocks": 0, "increment_blocks": 0}, Reason.ABSURD_TERMS),
    ({"increment_blocks": 0}, Reason.ABSURD_TERMS),
    ({"increment_blocks": 11}, Reason.ABSURD_TERMS),
    ({"steps": 0}, Reason.ABSURD_TERMS),
    ({"steps": 2**32 + 1}, Reason.ABSURD_TERMS),
    ({"checkpoint_every": 0}, Reason.ABSURD_TERMS),
    ({"checkpoint_every": 9}, Reason.ABSURD_TERMS),
    ({"state_slots": 0}, Reason.ABSURD_TERMS),
    ({"state_slots": 2**16 + 1, "operators": 2**17}, Reason.ABSURD_TERMS),
    ({"operators": 2}, Reason.ABSURD_TERMS),
    ({"operators": 2**20 + 1}, Reason.ABSURD_TERMS),
    ({"batch_slots": 2**16 + 1}, Reason.ABSURD_TERMS),
)


def test_a_job_is_entered_with_both_bonds_by_anybody(both: Services) -> None:
    """Whoever calls pays for both, and no terms are taken that a referee would not take."""
    tops, members = (HISTORY.top, TRUTH), (PROVIDER, FIRST)
    for changes, reason in BAD_ENTRIES:
        terms = replace(ENTRY, **changes)
        value_wei = 2 * terms.bond_wei
        args = (terms, CLIENT, *members, tops)
        assert both.play("enter", STRANGER, *args, value_wei=value_wei) == reason, changes
    args = (ENTRY, CLIENT, *members, tops)
    for value_wei in (0, BOND, 2 * BOND - 1, 2 * BOND + 1):
        assert both.play("enter", STRANGER, *args, value_wei=value_wei) == Reason.WRONG_BOND
    alone = (ENTRY, CLIENT, FIRST, FIRST, tops)
    assert both.play("enter", STRANGER, *alone, value_wei=2 * BOND) == Reason.ALREADY_JOINED
    agreed = (ENTRY, CLIENT, *members, (TRUTH, TRUTH))
    assert both.play("enter", STRANGER, *agreed, value_wei=2 * BOND) == Reason.NO_DISPUTE
    for swapped in (members, members[::-1]):
        args = (ENTRY, CLIENT, *swapped, tops)
        assert both.play("enter", STRANGER, *args, value_wei=2 * BOND) is None
        pair, board = both.look()
        assert board.position.nodes[(pair.first, pair.second).index(swapped[0])] == tops[0]
    extremes = replace(
        ENTRY,
        bond_wei=MAX_BOND_WEI,
        operators=2**20,
        state_slots=2**16,
        batch_slots=2**16,
        steps=2**32,
        checkpoint_every=1,
        window_blocks=MAX_BLOCKS,
        clock_blocks=MAX_BLOCKS,
        increment_blocks=MAX_BLOCKS,
    )
    args = (extremes, CLIENT, *members, tops)
    assert both.play("enter", STRANGER, *args, value_wei=2 * MAX_BOND_WEI) is None


def test_others_join_from_the_next_block_for_a_window(both: Services) -> None:
    """Either claim, or one of their own; late, and so for prizes alone."""
    both.stake(BOND)
    assert both.challenge(make_receipt()) is None
    named = both.name_job(0)
    join = ("join", SECOND, 0, TRUTH, named)
    assert both.play(*join, value_wei=BOND) == Reason.TOO_EARLY
    both.block += 20
    assert both.play("join", SECOND, 0, TRUTH, named + 1, value_wei=BOND) == Reason.OTHER_TERMS
    assert both.play(*join, value_wei=BOND) is None
    assert both.play("join", RIVAL, 0, OTHER, named, value_wei=BOND) is None
    both.block += 1
    assert both.play("join", STRANGER, 0, TRUTH, named, value_wei=BOND) == Reason.TOO_LATE
    assert both.store.members[0, SECOND].standing is Standing.LATE


@pytest.mark.parametrize("is_lie", [True, False])
def test_a_challenge_is_played_to_a_scalar(both: Services, *, is_lie: bool) -> None:
    """Whoever is right wins the other's bond by half, and the other half is burned."""
    dispute = Dispute(both, LIE if is_lie else None, {FIRST: None if is_lie else LIE})
    both.stake(3 * BOND)
    before = dict(both.balances)
    assert dispute.challenge() is None
    winner = FIRST if is_lie else PROVIDER
    assert dispute.finish() == winner
    assert both.settle(dispute.runs[winner].history.top) is None
    assert both.store.jobs[0].status is Status.WON
    for account in (PROVIDER, FIRST):
        expected = None if account == winner else Reason.NOTHING_OWED
        assert both.play("collect", account, 0) == expected
    assert both.balances[FIRST] - before[FIRST] == (BOND // 2 if is_lie else -BOND)
    assert both.balances[NOBODY] - before[NOBODY] == BOND // 2
    assert both.store.balance_wei == 0
    again = both.challenge(dispute.receipt, SECOND, TRUTH)
    assert again == (Reason.HAS_LOST if is_lie else None)


@pytest.mark.parametrize("is_lie", every(4, [True, False]))
def test_a_challenge_is_played_in_another_arithmetic(*, is_lie: bool) -> None:
    """There is a service of each, with the referee's own leaf."""
    both = Services(ChallengeContract(ACCOUNTS, EXACT))
    both.stake(BOND)
    dispute = Dispute(both, LIE if is_lie else None, {FIRST: None if is_lie else LIE})
    assert dispute.challenge() is None
    assert dispute.finish() == (FIRST if is_lie else PROVIDER)


@pytest.mark.parametrize("arithmetic", only({ORDERED}, [ORDERED, EXACT, HOPPER, AMPERE]), ids=str)
def test_contracts_are_no_larger_than_may_be(arithmetic: Arithmetic) -> None:
    """EIP-170 limits the code on the chain, and EIP-3860 the code that makes it."""
    for name in ("challenges", "service"):
        artifact = compile_contract(name, arithmetic=arithmetic.contracts)
        assert artifact.runtime_size <= 24_576
        assert len(artifact.bytecode) <= 2 * 24_576


def test_a_referee_and_a_service_share_a_leaf() -> None:
    """What computes leaves is asked by whoever makes a call of it, and tells nobody else."""

    class Sharing(ChallengeContract):
        """Challenges beside a referee, with its leaf."""

        def deploy(self, machine: Machine) -> Deployed:
            """Put the referee into the machine, and then both."""
            referee = Contract(machine, deploy_referee(machine, NOBODY, self.arithmetic))
            leaf = referee.view("leaf_contract")
            return self.keep(machine, *deploy_service(machine, NOBODY, leaf=leaf))

    both = Services(Sharing(ACCOUNTS))
    both.stake(BOND)
    dispute = Dispute(both, LIE)
    assert dispute.challenge() is None
    assert dispute.finish() == FIRST


def test_no_job_is_void(both: Services) -> None:
    """Nobody can annul one, prove a program illegal, or rule: the contract has no such calls."""
    assert both.contract is not None
    abi = {entry.get("name") for entry in both.contract.abi}
    assert abi.isdisjoint({"annul", "open_job", "commit", "reveal", "rule"})
    assert {"enter", "join", "settle", "collect", "timeout"} <= abi
