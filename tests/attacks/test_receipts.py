"""Attacks on and with receipts, their service and their challenges (family R)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_service
from moot.contracts.model.bonds import Balance, Batch, Service
from moot.contracts.model.checks import name_match
from moot.contracts.model.receipts import Receipt, Voucher
from moot.contracts.model.service import DEFUND_BLOCKS, UNSTAKE_BLOCKS
from moot.contracts.model.types import MIN_BOND_WEI, NOBODY, ZERO, Store
from moot.contracts.reasons import Reason, Standing, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from moot.offchain.disputes.play.tournament import order_pair
from tests.attacks.puppet import SOURCE, Payday
from tests.referee.disputes import LIE, Dispute
from tests.referee.services import (
    ACCOUNTS,
    ANSWER,
    CHALLENGERS,
    CLIENT,
    OTHER,
    PROVIDER,
    RIVAL,
    SALT,
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
    """A service, twice, in which the provider has staked three bonds."""
    services = Services(ChallengeContract(ACCOUNTS))
    assert services.stake(3 * BOND) is None
    return services


def issue(count: int, **changes: Any) -> list[Receipt]:
    """Return the first receipts of an honest book, of a bond each."""
    return [
        make_receipt(number=n, total_wei=(n + 1) * BOND, **(changes | {"stake_wei": BOND}))
        for n in range(count)
    ]


def count_covered(both: Services, receipts: list[Receipt]) -> int:
    """Return of how many receipts a client would say that the bond covers them."""
    return sum(it.open_wei <= both.get_bond(it.provider, it.last_block) for it in receipts)


def test_r1_one_number_for_two_clients_is_a_fault(both: Services) -> None:
    """A provider that lies to a thousand with one bond has a second chain, and loses all of it."""
    shown, hidden = issue(3), issue(3, client=STRANGER)
    assert count_covered(both, shown) == count_covered(both, hidden) == 3
    before = both.balances[FIRST]
    assert both.prove_conflict(shown[1], hidden[1], FIRST) is None
    assert both.balances[FIRST] - before == 3 * BOND // 2
    assert both.model.burned_wei == 3 * BOND // 2
    assert count_covered(both, shown) == 0
    assert both.stake(BOND) == Reason.AT_FAULT


@pytest.mark.parametrize("number", [1, 2, 9])
def test_r1_two_chains_conflict_in_some_pair_whatever_their_numbers(
    both: Services, number: int
) -> None:
    """Who leaves a number out for the other chain has a total too low, next to it or over a gap."""
    first = issue(1)[0]
    second = replace(first, number=number, client=STRANGER, total_wei=BOND)
    assert both.prove_conflict(first, second) is None


def test_r2_total_that_does_not_follow_is_a_fault(both: Services) -> None:
    """Neither lower nor higher than the one before and the stake; higher only over a gap."""
    first, second, third = issue(3)
    assert both.prove_conflict(first, second) == Reason.NO_FAULT
    assert both.prove_conflict(first, third) == Reason.NO_FAULT
    assert both.prove_conflict(first, replace(third, total_wei=4 * BOND)) == Reason.NO_FAULT
    assert both.prove_conflict(first, replace(second, total_wei=2 * BOND + 1)) is None


def test_r2_gap_hides_no_stake(both: Services) -> None:
    """A receipt that leaves out what was between cannot have a total below what it shows."""
    first, _, third = issue(3)
    assert both.prove_conflict(first, replace(third, total_wei=2 * BOND - 1)) is None


def test_r3_release_before_the_end_is_a_fault(both: Services) -> None:
    """What is released had to have ended before the receipt that says so was issued."""
    first, second = issue(2)
    ended = replace(second, released_wei=BOND, issued_block=first.last_block + 1, last_block=300)
    assert count_covered(both, [ended]) == 1
    assert both.prove_conflict(first, ended) == Reason.NO_FAULT
    early = replace(ended, issued_block=first.last_block)
    assert both.prove_conflict(first, early) is None


def test_r4_withheld_receipt_is_paid_by_no_voucher(both: Services) -> None:
    """Who has no receipt signs no voucher, and nothing else opens a balance."""
    both.call("fund", CLIENT, PROVIDER, value_wei=100)
    forged = sign(Voucher(CLIENT, PROVIDER, 7).hash(both.model.domain), PROVIDER)
    assert both.redeem(7, signature=forged) == Reason.BAD_SIGNATURE
    assert both.redeem(7, client=PROVIDER) == Reason.NOTHING_DUE
    assert both.call("defund", CLIENT, PROVIDER, 100) is None
    both.block += DEFUND_BLOCKS + 1
    assert both.call("take_funds", CLIENT, PROVIDER) is None


def test_r4_answer_without_a_signature_is_no_receipt(both: Services) -> None:
    """Nobody challenges, or blames a provider for, what it has not signed."""
    receipt = make_receipt(answer=OTHER)
    for signature in (b"", both.sign(receipt, CLIENT)):
        assert both.challenge(receipt, signature=signature) == Reason.BAD_SIGNATURE
        assert both.refute(receipt, signature=signature) == Reason.BAD_SIGNATURE


def test_r5_frivolous_challenger_pays_the_defence(both: Services) -> None:
    """Half of its bond pays 2,000,000 gas at 50 gwei, more than both sides of a match take.

    docs/measurements/gas.md has what they take.
    """
    assert BOND // 2 == 2_000_000 * 50 * 10**9
    dispute = Dispute(both, None, {FIRST: LIE}, changes={"last_block": 4_000})
    before = both.balances[PROVIDER]
    assert dispute.challenge() is None
    assert dispute.finish() == PROVIDER
    assert both.settle(dispute.receipt.history) is None
    assert both.play("collect", PROVIDER, 0) is None
    assert both.play("collect", FIRST, 0) == Reason.NOTHING_OWED
    assert both.balances[PROVIDER] - before == BOND + BOND // 2
    assert both.store.burned_wei == BOND - BOND // 2
    # It may come back as long as the receipt may be challenged, at the same price.
    assert dispute.challenge() is None


def test_r6_last_block_is_in_time_and_the_next_is_not(both: Services) -> None:
    """Of a receipt; and the bond that stood up to that block is still there then."""
    receipt = make_receipt(issued_block=both.block, last_block=both.block + UNSTAKE_BLOCKS)
    assert both.call("unstake", PROVIDER, 3 * BOND) is None
    both.block = receipt.last_block - 1
    assert both.call("take_stake", PROVIDER) == Reason.NOT_LEFT
    both.block += 1
    assert both.challenge(receipt, SECOND) == Reason.RECEIPT_PAST
    both.block = receipt.last_block - 1
    assert both.challenge(receipt) is None
    assert both.block == receipt.last_block
    both.block += 1
    assert both.call("take_stake", PROVIDER) is None
    assert both.model.balance_wei == 0
    assert both.store.balance_wei == 2 * BOND


def test_r7_bond_that_is_being_withdrawn_is_liable(both: Services) -> None:
    """For every receipt that could be issued before; a client sees what stands up to its last."""
    receipt = make_receipt(issued_block=both.block, last_block=both.block + UNSTAKE_BLOCKS)
    assert both.call("unstake", PROVIDER, 3 * BOND) is None
    assert both.get_bond(PROVIDER, receipt.last_block) == 3 * BOND
    assert both.get_bond(PROVIDER, receipt.last_block + 1) == 0
    late = replace(receipt, number=1, issued_block=both.block + 1)
    late = replace(late, last_block=late.issued_block + UNSTAKE_BLOCKS)
    assert count_covered(both, [receipt, late]) == 1
    assert both.challenge(receipt) is None
    assert both.refute(replace(receipt, answer=OTHER)) is None
    assert both.model.stakes[PROVIDER] == Balance(is_at_fault=True)


def test_r8_lie_that_ten_challenge_is_one_match_that_others_join(both: Services) -> None:
    """The first begins it, and no wei of the others moves unless they join; late, for prizes."""
    dispute = Dispute(both, LIE, dict.fromkeys(CHALLENGERS, None))
    assert dispute.challenge(FIRST) is None
    held_wei = both.model.stakes[PROVIDER].standing_wei
    for challenger in CHALLENGERS[1:]:
        assert dispute.challenge(challenger) == Reason.BEING_CHALLENGED
    assert both.model.stakes[PROVIDER].standing_wei == held_wei == 2 * BOND
    top, named = dispute.runs[FIRST].history.top, both.name_job(0)
    assert both.play("join", SECOND, 0, top, named, value_wei=BOND) is None
    assert dispute.finish() == FIRST
    assert both.settle(top) is None
    before = both.balances[SECOND]
    assert both.play("collect", SECOND, 0) is None
    assert both.balances[SECOND] - before == BOND
    for challenger in CHALLENGERS:
        assert dispute.challenge(challenger) == Reason.HAS_LOST


def test_r9_inoculation_costs_half_a_bond_and_others_may_join(both: Services) -> None:
    """A liar lets an accomplice lose early: whoever has the true claim joins within the window."""
    dispute = Dispute(both, LIE, {FIRST: replace(LIE, mask=2), SECOND: None})
    assert dispute.challenge(FIRST) is None
    both.block += 1
    truth, named = dispute.runs[SECOND].history.top, both.name_job(0)
    assert both.play("join", SECOND, 0, truth, named, value_wei=BOND) is None
    dispute.lose(FIRST)
    assert both.store.members[0, PROVIDER].standing is Standing.REVEALED
    both.block = both.store.jobs[0].window_end + 1
    match = name_match(both.store, order_pair(0, PROVIDER, SECOND))
    assert both.play("start_match", STRANGER, *match) is None
    assert dispute.finish() == SECOND
    assert both.settle(truth) is None
    assert both.play("collect", SECOND, 0) is None
    assert both.play("collect", PROVIDER, 0) == Reason.NOTHING_OWED
    assert both.store.burned_wei == 3 * BOND - BOND - BOND // 2


def test_r9_inoculated_receipt_can_be_challenged_again(both: Services) -> None:
    """An early win protects nobody: the receipt is as good as before, up to its last block."""
    dispute = Dispute(both, LIE, {FIRST: replace(LIE, mask=2), SECOND: None})
    dispute.receipt = replace(dispute.receipt, last_block=2_000)
    assert dispute.challenge(FIRST) is None
    dispute.lose(FIRST)
    assert dispute.challenge(SECOND) == Reason.BEING_CHALLENGED
    assert both.settle(dispute.receipt.history) is None
    assert dispute.challenge(SECOND) is None
    assert dispute.finish() == SECOND


def test_r10_copied_challenge_comes_too_late(both: Services) -> None:
    """Who copies the call has announced nothing; who copies the announcement cannot use it."""
    receipt = make_receipt()
    both.announce(FIRST, receipt.hash(both.model.domain), TRUTH)
    digest = next(iter(both.model.announced))
    assert both.call("commit", SECOND, digest) is None
    both.block += 1
    args = (receipt, both.sign(receipt), TRUTH, SALT)
    assert both.call("challenge", SECOND, *args, value_wei=BOND) == Reason.NOT_ANNOUNCED
    both.announce(SECOND, receipt.hash(both.model.domain), TRUTH)
    both.block -= 1
    assert both.call("challenge", SECOND, *args, value_wei=BOND) == Reason.NOT_ANNOUNCED
    assert both.call("challenge", FIRST, *args, value_wei=BOND) is None


def test_r10_copied_proof_pays_its_author(both: Services) -> None:
    """Whoever sees a proof of fault cannot announce it a block before."""
    lie = make_receipt(answer=OTHER)
    domain = both.model.domain
    both.announce(FIRST, lie.hash(domain), ANSWER)
    pair = make_receipt(), make_receipt(price_wei=0)
    both.announce(FIRST, pair[0].hash(domain), pair[1].hash(domain))
    proofs = (tuple(Tree(Tag.HISTORY_NODE, [b"\3" * 32, b"\3" * 32]).proof(1)), ANSWER, ())
    stolen = (lie, both.sign(lie), ZERO, *proofs, SALT)
    assert both.call("refute_answer", SECOND, *stolen) == Reason.NOT_ANNOUNCED
    stolen = (pair, both.sign(pair[0]), both.sign(pair[1]), SALT)
    assert both.call("prove_conflict", SECOND, *stolen) == Reason.NOT_ANNOUNCED
    assert both.call("prove_conflict", FIRST, *stolen) is None


def test_r11_receipts_and_vouchers_are_of_one_service(both: Services) -> None:
    """A second service of the same contracts takes none of the first's; nor does another chain."""
    assert both.contract is not None
    challenges, second = deploy_service(both.contract.machine, NOBODY)
    there = Service(second.address, Store(both.store.chain_id, challenges.address))
    receipt = make_receipt()
    assert receipt.hash(there.domain) != receipt.hash(both.model.domain)
    signature = sign(receipt.hash(there.domain), PROVIDER)
    assert both.challenge(receipt, signature=signature) == Reason.BAD_SIGNATURE
    other = replace(both.model.domain, chain_id=both.store.chain_id + 1)
    both.call("fund", CLIENT, PROVIDER, value_wei=10)
    for domain in (there.domain, other):
        voucher = sign(Voucher(CLIENT, PROVIDER, 5).hash(domain), CLIENT)
        assert both.redeem(5, signature=voucher) == Reason.BAD_SIGNATURE
    assert both.challenge(receipt) is None


def test_r12_second_form_of_a_signature_is_refused(both: Services) -> None:
    """Nobody makes another signature of one that he has seen."""
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    receipt = make_receipt()
    signature = both.sign(receipt)
    other = (order - int.from_bytes(signature[32:64], "big")).to_bytes(32, "big")
    forged = signature[:32] + other + bytes([55 - signature[64]])
    assert both.challenge(receipt, signature=forged) == Reason.BAD_SIGNATURE
    assert both.challenge(receipt, signature=signature) is None


def test_r12_nobody_signs_for_the_zero_address(both: Services) -> None:
    """A signature that recovers nothing is of nobody, whoever that is."""
    receipt = make_receipt(provider=NOBODY)
    assert both.challenge(receipt, signature=bytes(64) + b"\x1b") == Reason.BAD_SIGNATURE
    assert both.redeem(5, client=NOBODY, signature=bytes(64) + b"\x1c") == Reason.BAD_SIGNATURE


def test_r13_voucher_pays_once_and_a_lower_one_nothing(both: Services) -> None:
    """The totals are cumulative: what was paid is never paid again, in whatever order."""
    both.call("fund", CLIENT, PROVIDER, value_wei=100)
    before = both.balances[PROVIDER]
    assert both.redeem(30) is None
    for total_wei in (30, 29, 1):
        assert both.redeem(total_wei) == Reason.NOTHING_DUE
    assert both.redeem(50) is None
    assert both.balances[PROVIDER] - before == 50


def test_r14_client_that_takes_its_balance_back_leaves_a_day_to_redeem(both: Services) -> None:
    """And a provider that comes too late is paid when there is a balance again."""
    both.call("fund", CLIENT, PROVIDER, value_wei=100)
    assert both.call("defund", CLIENT, PROVIDER, 100) is None
    both.block += DEFUND_BLOCKS
    assert both.redeem(40) is None
    both.block += 1
    assert both.redeem(50) is None
    assert both.call("take_funds", CLIENT, PROVIDER) is None
    assert both.redeem(90) == Reason.NOTHING_DUE
    both.call("fund", CLIENT, PROVIDER, value_wei=15)
    assert both.redeem(90) is None
    assert both.model.redeemed[CLIENT, PROVIDER] == 65


def test_r15_who_is_paid_and_calls_again_is_owed_nothing(both: Services, tmp_path: Path) -> None:
    """What is owed is gone before the money is: of a bond, a balance, and a prize."""
    assert both.contract is not None
    (tmp_path / "puppet.vy").write_text(SOURCE)
    service, machine = both.contract.service, both.contract.machine
    puppet = machine.deploy(compile_contract("puppet", tmp_path), service.address)
    encode, place = service.codec.encode_call, {"sender": STRANGER, "value_wei": 0}

    def tell(name: str, *args: object, value_wei: int = 0) -> str | None:
        sent = {**place, "value_wei": value_wei, "block": both.block}
        return machine.call(puppet.raw, puppet.codec.encode_call(name, args), **sent).reason

    def play(data: bytes, value_wei: int = 0) -> str | None:
        return tell("play", [service.address], [data], value_wei=value_wei)

    # Others have more in it than the puppet could take.
    both.call("fund", CLIENT, PROVIDER, value_wei=1_000)
    assert play(encode("stake", ()), 10) is None
    assert play(encode("fund", (PROVIDER,)), 20) is None
    assert play(encode("unstake", (10,))) is None
    assert play(encode("defund", (PROVIDER, 20))) is None
    both.block += UNSTAKE_BLOCKS + 1
    takes = [encode("take_stake", ()), encode("take_funds", (PROVIDER,))]
    for taken, (data, due_wei) in enumerate(zip(takes, (10, 20), strict=True)):
        again = [data]
        assert tell("arm", Payday.REFUSE, again) is None
        assert play(data) is not None
        assert tell("arm", Payday.CALL, again) is None
        assert play(data) is None
        assert machine.balance(puppet.address) == (10, 30)[taken] == due_wei + 10 * taken
    assert machine.balance(service.address) == both.model.balance_wei == 3 * BOND + 1_000


def test_r16_silent_provider_loses_its_bond_for_this_receipt(both: Services) -> None:
    """Its clock runs without its consent, and no other receipt's bond is touched."""
    dispute = Dispute(both, None, {FIRST: LIE})
    assert dispute.challenge() is None
    dispute.lose(PROVIDER)
    assert both.store.members[0, PROVIDER].standing is Standing.DEFEATED
    assert both.model.stakes[PROVIDER] == Balance(2 * BOND)
    assert both.settle(dispute.runs[FIRST].history.top) is None
    assert dispute.challenge() == Reason.HAS_LOST


def test_r16_silent_challenger_loses_too(both: Services) -> None:
    """Whoever is to move and does not, loses: a challenge is no threat without moves."""
    dispute = Dispute(both, LIE, {FIRST: None})
    assert dispute.challenge() is None
    dispute.lose(FIRST)
    assert both.store.members[0, FIRST].standing is Standing.DEFEATED


@pytest.mark.parametrize("loser", [PROVIDER, FIRST])
def test_r17_provider_that_challenges_itself_burns_half(both: Services, loser: str) -> None:
    """Whichever of its accounts loses: of what leaves the service in a match, half is burned."""
    receipt = make_receipt()
    before = both.balances[PROVIDER] + both.balances[FIRST] + both.model.balance_wei
    assert both.challenge(receipt, PROVIDER) == Reason.ALREADY_JOINED
    dispute = Dispute(both, LIE, {FIRST: None})
    assert dispute.challenge() is None
    dispute.lose(loser)
    winner = FIRST if loser == PROVIDER else PROVIDER
    assert both.settle(dispute.runs[winner].history.top) is None
    assert both.play("collect", winner, 0) is None
    after = both.balances[PROVIDER] + both.balances[FIRST] + both.model.balance_wei
    assert before - after == BOND // 2


def test_r17_bond_that_accomplices_have_drained_has_burned_half(both: Services) -> None:
    """Who empties its bond by challenges of its own leaves no cover, and has paid half of it."""
    for number in range(3):
        changes = {"number": number, "last_block": 4_000}
        dispute = Dispute(both, None, {CHALLENGERS[number]: LIE}, changes=changes)
        assert dispute.challenge(CHALLENGERS[number]) is None
        dispute.lose(CHALLENGERS[number])
        assert both.settle(dispute.receipt.history) is None
        assert both.play("collect", PROVIDER, number) is None
    last = make_receipt(number=3, last_block=4_000)
    assert both.challenge(last) == Reason.BOND_EXHAUSTED
    assert both.get_bond(PROVIDER, 0) == 0
    assert both.store.burned_wei == 3 * (BOND - BOND // 2)


def test_r17_small_challenge_is_no_shield_for_a_large_stake(both: Services) -> None:
    """A bond of which a part is gone is challenged for the rest: a stake above it does not help."""
    small = make_receipt(stake_wei=1, total_wei=1)
    large = make_receipt(number=1, stake_wei=3 * BOND - 1, total_wei=3 * BOND)
    assert count_covered(both, [small, large]) == 2
    assert both.challenge(small, FIRST) is None
    before = both.balances[SECOND]
    assert both.challenge(large, SECOND) is None
    assert both.store.jobs[1].terms.bond_wei == before - both.balances[SECOND] == 2 * BOND


def test_r18_receipt_that_is_not_in_its_batch_is_a_fault(both: Services) -> None:
    """Who is shown a root on the chain before it pays has the only receipt of a number."""
    receipts = issue(5)
    digests = [it.hash(both.model.domain) for it in receipts]
    tree = Tree(Tag.RECEIPT_NODE, digests)
    assert both.call("publish", PROVIDER, 0, 5, tree.top) is None
    batch, other = Batch(0, 5, tree.top), replace(receipts[3], client=STRANGER)
    proof = tuple(tree.proof(3))
    refusal = both.prove_unlisted(receipts[3], batch, digests[3], proof)
    assert refusal == Reason.NO_FAULT
    assert both.prove_unlisted(other, batch, digests[3], proof) is None
    assert both.model.stakes[PROVIDER].is_at_fault


def test_r19_batches_never_overlap(both: Services) -> None:
    """No number is published twice, nor left out; a call sent twice is refused the second time."""
    assert both.call("publish", PROVIDER, 0, 5, TRUTH) is None
    for first in (0, 4, 6):
        assert both.call("publish", PROVIDER, first, 5, OTHER) == Reason.NOT_NEXT
    assert both.call("publish", PROVIDER, 5, 5, OTHER) is None


def test_r20_absurd_terms_are_no_receipt(both: Services) -> None:
    """No clock of zero, no window of a century, no stake that is not open, no year to challenge."""
    for changes in (
        {"clock_blocks": 0},
        {"window_blocks": 1 << 21},
        {"window_blocks": 0},
        {"increment_blocks": 11},
        {"steps": 0},
        {"answer_slot": 3},
        {"stake_wei": BOND + 1},
        {"released_wei": 1},
        {"last_block": 0},
        {"last_block": UNSTAKE_BLOCKS + 2},
    ):
        assert both.challenge(make_receipt(**changes)) == Reason.ABSURD_RECEIPT, changes


def test_r21_no_proof_of_a_fault_of_the_program_frees_a_bond(both: Services) -> None:
    """A job of challenges is never void: else a liar would challenge an illegal program's receipt.

    It would prove that, have both bonds back in full, and be out of the service in a block.
    """
    assert both.challenge(make_receipt(program_top=ZERO)) is None
    assert both.contract is not None
    assert not any(entry.get("name") == "annul" for entry in both.contract.abi)
    pair, board = both.look()
    both.block = board.position.deadline + 1
    assert both.play("timeout", STRANGER, pair, board.position) is None
    left = [top for top in (make_receipt().history, TRUTH) if both.is_left(0, top)]
    assert both.settle(left[0]) is None
    assert both.store.jobs[0].status is Status.WON
    assert both.store.burned_wei == BOND - BOND // 2


def test_r22_entering_for_another_harms_who_pays(both: Services) -> None:
    """A job that is entered without the service takes no bond of anybody but the caller."""
    terms = make_receipt().make_terms(BOND)
    args = (terms, CLIENT, PROVIDER, FIRST, (TRUTH, OTHER))
    before = dict(both.balances)
    assert both.play("enter", RIVAL, *args, value_wei=2 * BOND) is None
    assert both.model.stakes[PROVIDER] == Balance(3 * BOND)
    assert before[RIVAL] - both.balances[RIVAL] == 2 * BOND
    # The number of the next job is another one; a challenge takes whatever it gets.
    assert both.challenge(make_receipt(), SECOND) is None
    assert both.model.challenged == {make_receipt().hash(both.model.domain): 1}
