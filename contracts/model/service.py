"""The service: bonds that back receipts, balances that vouchers pay from, challenges of receipts.

docs/explanation/receipts.md says what holds. Proofs of faults are in `faults.py`, what is
remembered in `bonds.py`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from moot.contracts.model import challenges, faults
from moot.contracts.model.bonds import (
    NOTHING,
    Batch,
    Service,
    require_receipt,
    require_signed,
)
from moot.contracts.model.checks import get_member, require
from moot.contracts.model.receipts import MAX_WINDOW_BLOCKS, Receipt, Voucher
from moot.contracts.model.referee import make_call
from moot.contracts.model.types import MIN_BOND_WEI, Address, Event, Message
from moot.contracts.reasons import Reason, Standing, Status
from moot.offchain.commitments.tree import Digest

UNSTAKE_BLOCKS = MAX_WINDOW_BLOCKS
"""What leaves a bond is liable as long as any receipt can be that was issued before."""
DEFUND_BLOCKS = 7_200
"""What leaves a balance can be taken by vouchers for so long: a day of blocks of 12 seconds."""
MAX_BATCH = 1 << 32
"""The most receipts that one call publishes."""


def call(service: Service, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events; those of a match are the referee's.

    Raises:
        Revert: the call is refused; the service is as it was.
    """
    return make_call(service, name, message, args, CALLS, _PAYABLE)


def on_stake(service: Service, message: Message) -> None:
    """Add the value to the sender's bond, which backs what it signs as a provider."""
    bond = service.get_stake(message.sender)
    require(not bond.is_at_fault, Reason.AT_FAULT)
    require(message.value_wei > 0, Reason.NO_AMOUNT)
    service.put(service.stakes, message.sender, bond.add(message.value_wei))
    service.announce("Staked", message.sender, message.value_wei)


def on_unstake(service: Service, message: Message, amount_wei: int) -> None:
    """Let a part of the sender's bond leave; it is liable until then."""
    last_block = message.block + UNSTAKE_BLOCKS
    bond = service.get_stake(message.sender).let_leave(amount_wei, last_block)
    service.put(service.stakes, message.sender, bond)
    service.announce("Leaving", message.sender, amount_wei, last_block)


def on_take_stake(service: Service, message: Message) -> None:
    """Pay the sender what has left its bond."""
    amount_wei, bond = service.get_stake(message.sender).take(message.block)
    service.put(service.stakes, message.sender, bond)
    service.announce("StakeTaken", message.sender, amount_wei)
    service.balance_wei -= amount_wei


def on_fund(service: Service, message: Message, provider: Address) -> None:
    """Add the value to the sender's balance with a provider, which its vouchers pay from."""
    require(message.value_wei > 0, Reason.NO_AMOUNT)
    place = (message.sender, provider)
    balance = service.funds.get(place, NOTHING).add(message.value_wei)
    service.put(service.funds, place, balance)
    service.announce("Funded", *place, message.value_wei)


def on_defund(service: Service, message: Message, provider: Address, amount_wei: int) -> None:
    """Let a part of the sender's balance leave; vouchers are paid from it until then."""
    place, last_block = (message.sender, provider), message.block + DEFUND_BLOCKS
    balance = service.funds.get(place, NOTHING).let_leave(amount_wei, last_block)
    service.put(service.funds, place, balance)
    service.announce("FundsLeaving", *place, amount_wei, last_block)


def on_take_funds(service: Service, message: Message, provider: Address) -> None:
    """Pay the sender what has left its balance with a provider."""
    place = (message.sender, provider)
    amount_wei, balance = service.funds.get(place, NOTHING).take(message.block)
    service.put(service.funds, place, balance)
    service.announce("FundsTaken", *place, amount_wei)
    service.balance_wei -= amount_wei


def on_redeem(
    service: Service, message: Message, client: Address, total_wei: int, signature: bytes
) -> None:
    """Pay the sender what a voucher promises and no earlier one has paid, as far as there is."""
    digest = Voucher(client, message.sender, total_wei).hash(service.domain)
    require_signed(digest, signature, client)
    place = (client, message.sender)
    before_wei, balance = service.redeemed.get(place, 0), service.funds.get(place, NOTHING)
    due_wei = min(total_wei - before_wei, balance.all_wei)
    require(due_wei > 0, Reason.NOTHING_DUE)
    service.put(service.funds, place, balance.draw(due_wei))
    service.put(service.redeemed, place, before_wei + due_wei)
    service.announce("Redeemed", *place, due_wei, before_wei + due_wei)
    service.balance_wei -= due_wei


def on_publish(service: Service, message: Message, first: int, count: int, root: Digest) -> None:
    """Publish the sender's next receipts: no others can have their numbers any more.

    A provider at fault may, too: its receipts are backed by nothing.
    """
    provider = message.sender
    require(first == service.published.get(provider, 0), Reason.NOT_NEXT)
    require(1 <= count <= MAX_BATCH, Reason.ABSURD_BATCH)
    service.put(service.published, provider, first + count)
    service.put(service.batches, (provider, first), Batch(first, count, root).hash())
    service.announce("Published", provider, first, count, root)


def on_commit(service: Service, message: Message, digest: Digest) -> None:
    """Announce a challenge or a proof; what is announced already becomes no younger."""
    if digest not in service.announced:
        service.put(service.announced, digest, message.block)


def on_challenge(
    service: Service,
    message: Message,
    receipt: Receipt,
    signature: bytes,
    top: Digest,
    salt: Digest,
) -> None:
    """Claim something else than a receipt does, and begin the match with its provider.

    The value is the receipt's stake, or the least bond of a match if that is more. If less is left
    of the provider's bond, the match is about as much, and the rest goes back.
    """
    digest = require_receipt(service, message, receipt, signature, (top, salt))
    require(message.block <= receipt.last_block, Reason.RECEIPT_PAST)
    _require_unrefuted(service, digest, receipt.provider)
    wanted_wei = receipt.bond_wei
    require(message.value_wei == wanted_wei, Reason.WRONG_VALUE)
    bond = service.get_stake(receipt.provider)
    bond_wei = min(wanted_wei, bond.all_wei)
    require(bond_wei >= MIN_BOND_WEI, Reason.BOND_EXHAUSTED)
    service.put(service.stakes, receipt.provider, bond.draw(bond_wei))
    job_id = len(service.challenges.jobs)
    members = (receipt.provider, message.sender)
    job = (receipt.make_terms(bond_wei), receipt.client, *members, (receipt.history, top))
    entering = Message(service.address, 2 * bond_wei, message.block)
    challenges.call(service.challenges, "enter", entering, *job)
    service.put(service.challenged, digest, job_id)
    service.announce("Challenged", digest, *members, job_id, bond_wei, receipt)
    service.balance_wei -= wanted_wei + bond_wei


def _require_unrefuted(service: Service, digest: Digest, provider: Address) -> None:
    """Refuse a receipt that is being challenged, or whose provider has lost by it."""
    if digest not in service.challenged:
        return
    job_id = service.challenged[digest]
    is_open = service.challenges.jobs[job_id].status is Status.OPEN
    require(not is_open, Reason.BEING_CHALLENGED)
    member = get_member(service.challenges, job_id, provider)
    require(member.standing is not Standing.DEFEATED, Reason.HAS_LOST)


CALLS: Final[Mapping[str, Callable[..., None]]] = {
    "stake": on_stake,
    "unstake": on_unstake,
    "take_stake": on_take_stake,
    "fund": on_fund,
    "defund": on_defund,
    "take_funds": on_take_funds,
    "redeem": on_redeem,
    "publish": on_publish,
    "commit": on_commit,
    "challenge": on_challenge,
    "refute_answer": faults.on_refute_answer,
    "prove_conflict": faults.on_prove_conflict,
    "prove_unlisted": faults.on_prove_unlisted,
}
_PAYABLE = frozenset({"stake", "fund", "challenge"})
