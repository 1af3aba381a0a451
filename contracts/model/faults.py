"""Faults of providers that need no match: each takes the whole bond, what is leaving too.

Half is the prize of whoever shows the fault, and half is burned. The provider cannot stake again.
"""

from moot.contracts.model.bonds import (
    Balance,
    Batch,
    Service,
    require_receipt,
    require_signed,
    use_announcement,
)
from moot.contracts.model.checks import require
from moot.contracts.model.receipts import Receipt, find_conflict
from moot.contracts.model.types import PRIZE_DIVISOR, Address, Message
from moot.contracts.reasons import Fault, Reason
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, climb, get_height, hash_root
from moot.offchain.errors import CommitmentError

Proof = tuple[Digest, ...]


def on_refute_answer(
    service: Service,
    message: Message,
    receipt: Receipt,
    signature: bytes,
    state_root: Digest,
    history_proof: Proof,
    tensor_root: Digest,
    slot_proof: Proof,
    salt: Digest,
) -> None:
    """Show that a receipt's answer is not what its own last state has in the answer's slot."""
    digest = require_receipt(service, message, receipt, signature, (tensor_root, salt))
    require(tensor_root != receipt.answer, Reason.NO_FAULT)
    count, slots = receipt.make_terms(0).checkpoints, receipt.state_slots
    top = _climb(Tag.HISTORY_NODE, state_root, count - 1, count, history_proof)
    require(top == receipt.history, Reason.UNPROVEN_FAULT)
    node = _climb(Tag.STATE_NODE, tensor_root, receipt.answer_slot, slots, slot_proof)
    is_there = node is not None and hash_root(Tag.STATE_ROOT, slots, node) == state_root
    require(is_there, Reason.UNPROVEN_FAULT)
    _punish(service, message, receipt.provider, Fault.OTHER_ANSWER, digest)


def on_prove_conflict(
    service: Service,
    message: Message,
    pair: tuple[Receipt, Receipt],
    first_signature: bytes,
    second_signature: bytes,
    salt: Digest,
) -> None:
    """Show two receipts of a provider that do not go together, that of the lower number first."""
    first, second = pair
    digests = first.hash(service.domain), second.hash(service.domain)
    use_announcement(service, message, digests, salt)
    require_signed(digests[0], first_signature, first.provider)
    require_signed(digests[1], second_signature, second.provider)
    are_of_one = int(first.provider, 16) == int(second.provider, 16)
    are_two = digests[0] != digests[1] and first.number <= second.number
    is_fault = are_of_one and are_two and find_conflict(first, second)
    require(is_fault, Reason.NO_FAULT)
    _punish(service, message, first.provider, Fault.CONFLICT, digests[1])


def on_prove_unlisted(
    service: Service,
    message: Message,
    receipt: Receipt,
    signature: bytes,
    batch: Batch,
    listed: Digest,
    proof: Proof,
    salt: Digest,
) -> None:
    """Show that a provider has published another receipt under a receipt's number."""
    digest = receipt.hash(service.domain)
    use_announcement(service, message, (digest, listed), salt)
    require_signed(digest, signature, receipt.provider)
    kept = service.batches.get((receipt.provider, batch.first))
    require(kept == batch.hash(), Reason.NO_SUCH_BATCH)
    is_other = listed != digest and receipt.number >= batch.first
    require(is_other, Reason.NO_FAULT)
    index = receipt.number - batch.first
    top = _climb(Tag.RECEIPT_NODE, listed, index, batch.count, proof)
    require(top == batch.root, Reason.UNPROVEN_FAULT)
    _punish(service, message, receipt.provider, Fault.UNLISTED, digest)


def _climb(tag: Tag, leaf: Digest, index: int, count: int, proof: Proof) -> Digest | None:
    """Return where a proof leads from a leaf; None if it is none for that place."""
    try:
        return climb(tag, leaf, index, count, 0, get_height(count), proof)
    except CommitmentError:
        return None


def _punish(
    service: Service, message: Message, provider: Address, fault: Fault, digest: Digest
) -> None:
    """Take all of a provider's bond: half is the sender's, half is burned."""
    bond = service.get_stake(provider)
    require(not bond.is_at_fault, Reason.AT_FAULT)
    service.put(service.stakes, provider, Balance(is_at_fault=True))
    prize_wei = bond.all_wei // PRIZE_DIVISOR
    service.announce("Faulted", provider, message.sender, fault, digest, prize_wei)
    service.balance_wei -= bond.all_wei
    service.burned_wei += bond.all_wei - prize_wei
