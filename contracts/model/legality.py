"""The proof that a job's program is not legal, upon which everybody gets its money back.

`offchain/programs/legality.py` says what is legal. What is proven here is that the leaf would
refuse an operator, or that it could never be shown an operand: of a legal program there is no such
proof.
"""

from collections.abc import Sequence
from math import prod

from moot.contracts.model.checks import get_open_job, require
from moot.contracts.model.leaf import read_node
from moot.contracts.model.ledger import close_job
from moot.contracts.model.types import Event, Message, Store, Terms
from moot.contracts.reasons import Reason, Revert, Status
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, climb, get_height, hash_root, is_member
from moot.offchain.errors import CommitmentError
from moot.offchain.programs.graph import Kind, Operand, Origin
from moot.offchain.programs.limits import MAX_RANK, MAX_TENSOR_BYTES

Proof = Sequence[Digest]

_HEADS = {True: (0, 2), False: (2, 6)}
"""Where type and rank stand and where the sizes begin: of what a tensor's root is made of (True),
and of an operator's encoding."""
_TOP_BYTES = 32


def on_prove_operator(
    store: Store, message: Message, job_id: int, index: int, encoding: bytes, proof: Proof
) -> None:
    """Show an operator that is not legal by itself, or a sink in a wrong place; anyone may."""
    del message
    terms = _get_terms(store, job_id)
    _require_operator(terms, index, encoding, proof)
    try:
        is_sink = read_node(encoding, store.arithmetic).kind is Kind.SINK
    except Revert:
        pass
    else:
        is_among_sinks = index >= terms.operators - terms.state_slots
        require(is_sink != is_among_sinks, Reason.LEGAL)
    _annul(store, job_id)


def on_prove_operand(
    store: Store,
    message: Message,
    job_id: int,
    index: int,
    encoding: bytes,
    proof: Proof,
    place: int,
    step: int,
    is_start: bool,  # noqa: FBT001 - the call's argument
    other: bytes,
    other_proof: Proof,
) -> None:
    """Show an operand that is not what the operator reads, or that nobody provides; anyone may.

    `other` is the operator whose output it should be, or the sink of the slot of the state; of data
    of a step, and of the start, what the tensor's root is made of: its header and its top.
    """
    del message
    terms = _get_terms(store, job_id)
    _require_operator(terms, index, encoding, proof)
    operands = read_node(encoding, store.arithmetic).operands
    require(place < len(operands), Reason.LEGAL)
    operand = operands[place]
    require(operand.origin is not Origin.IMMEDIATE, Reason.LEGAL)
    sources = {
        Origin.NODE: index,
        Origin.STATE: terms.state_slots,
        Origin.BATCH: terms.batch_slots,
    }
    if operand.reference < sources[operand.origin]:
        is_tensor = operand.origin is Origin.BATCH or (operand.origin is Origin.STATE and is_start)
        if operand.origin is Origin.BATCH:
            _require_datum(terms, step, operand.reference, other, other_proof)
        elif is_tensor:
            _require_start(terms, operand.reference, other, other_proof)
        else:
            first = terms.operators - terms.state_slots
            source = operand.reference + (first if operand.origin is Origin.STATE else 0)
            _require_operator(terms, source, other, other_proof)
        require(not _is_readable(operand, other, is_tensor=is_tensor), Reason.LEGAL)
    _annul(store, job_id)


def _get_terms(store: Store, job_id: int) -> Terms:
    require(job_id in store.jobs, Reason.UNPROVEN)
    return store.jobs[job_id].terms


def _annul(store: Store, job_id: int) -> None:
    """Close a job, and owe everybody what it has brought."""
    close_job(store, job_id, get_open_job(store, job_id), Status.VOID)
    store.events.append(Event("Settled", (job_id, Status.VOID, bytes(32))))


def _require_operator(terms: Terms, index: int, encoding: bytes, proof: Proof) -> None:
    digest = keccak256(bytes([Tag.OPERATOR]) + encoding)
    place = (index, terms.operators, proof)
    is_proven = is_member(Tag.PROGRAM_NODE, terms.program_top, digest, *place)
    require(is_proven, Reason.UNPROVEN)


def _require_datum(terms: Terms, step: int, slot: int, tensor: bytes, proof: Proof) -> None:
    require(step < terms.steps, Reason.UNPROVEN)
    root = keccak256(bytes([Tag.TENSOR_ROOT]) + tensor)
    place = (step * terms.batch_slots + slot, terms.steps * terms.batch_slots, proof)
    require(is_member(Tag.DATA_NODE, terms.data_top, root, *place), Reason.UNPROVEN)


def _require_start(terms: Terms, slot: int, tensor: bytes, proof: Proof) -> None:
    root, slots = keccak256(bytes([Tag.TENSOR_ROOT]) + tensor), terms.state_slots
    try:
        top = climb(Tag.STATE_NODE, root, slot, slots, 0, get_height(slots), proof)
    except CommitmentError as error:
        raise Revert(Reason.UNPROVEN) from error
    require(hash_root(Tag.STATE_ROOT, slots, top) == terms.start_root, Reason.UNPROVEN)


def _is_readable(operand: Operand, other: bytes, *, is_tensor: bool) -> bool:
    """Whether what is shown is of the operand's type, and has as many elements."""
    head, sizes = _HEADS[is_tensor]
    if len(other) < sizes:
        return False
    dtype, rank = other[head : head + 2]
    end = sizes + 8 * rank
    if rank > MAX_RANK or dtype != operand.dtype or len(other) < end:
        return False
    if is_tensor and len(other) != end + _TOP_BYTES:
        return False
    shape = (int.from_bytes(other[at : at + 8], "big") for at in range(sizes, end, 8))
    return min(prod(shape), MAX_TENSOR_BYTES) == prod(row.size for row in operand.rows)
