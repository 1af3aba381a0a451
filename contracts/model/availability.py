"""The client's promise that a job's program, start and data can be had, and demands upon it.

A client bonds the promise. Whoever lacks a part of what the job commits to may demand it, with a
deposit, which pays whoever shows that part on the chain. A demand that is not answered in time
costs the client its bond. The referee knows nothing of all this, and no job waits for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from contracts.model.checks import require
from contracts.model.types import (
    MAX_BLOCKS,
    MAX_BOND_WEI,
    PRIZE_DIVISOR,
    Address,
    Event,
    Message,
    Store,
)
from contracts.reasons import DemandStatus, Part, PromiseStatus, Reason, Revert
from offchain.arithmetic.functions import DType
from offchain.commitments.keccak import keccak256
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import EMPTY_TOP, hash_chunk, hash_tensor
from offchain.commitments.tree import Digest, climb, get_height, hash_root, is_member
from offchain.errors import CommitmentError
from offchain.programs.limits import MAX_RANK, MAX_TENSOR_BYTES

MIN_DEPOSIT_WEI = 200_000 * 50 * 10**9
"""The deposit of a demand pays 200,000 gas at 50 gwei, which the dearest answer costs at most."""
MIN_BOND_DEPOSITS = 2
"""The bond is so many deposits at least: the prize of a broken promise is what asking puts up."""
MAX_PROMISE_BLOCKS = 4 * MAX_BLOCKS
"""For how long a client can promise, in blocks."""
ANSWERS_A_BLOCK = 32
"""So many demands that are open give one more block to answer the next: 6.4 million gas."""
MAX_CHUNKS = MAX_TENSOR_BYTES // CHUNK_BYTES

Proof = Sequence[Digest]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a promise is about: a job, and what the job says of its program, start and data.

    Every call names all of it, so that on a reorganised chain no call is about another job.
    """

    referee: Address
    job_id: int
    operators: int
    state_slots: int
    batch_slots: int
    steps: int
    program_top: Digest
    start_root: Digest
    data_top: Digest

    def count(self, part: int) -> int:
        """Return how many operators or tensors a part has; none of what is no part."""
        counts = {
            Part.PROGRAM: self.operators,
            Part.START: self.state_slots,
            Part.DATA: self.steps * self.batch_slots,
        }
        return counts.get(Part(part), 0) if part in tuple(Part) else 0


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise; `open_demands` counts those that nobody has answered or taken back."""

    client: Address
    bond_wei: int
    deposit_wei: int
    answer_blocks: int
    last_block: int
    open_demands: int = 0
    status: PromiseStatus = PromiseStatus.KEPT

    @property
    def prize_wei(self) -> int:
        """What the asker of a demand that was not answered gets of the bond."""
        return self.bond_wei // PRIZE_DIVISOR


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand; `deadline` is the last block in which it can be answered."""

    asker: Address
    deadline: int
    status: DemandStatus = DemandStatus.OPEN


Place = tuple[Subject, int, int, int]
"""What is demanded: of a promise's subject the part, the operator or tensor in it, the chunk."""


@dataclass(slots=True)
class Vault:
    """Everything that the contract remembers, and the referees whose jobs it can read."""

    referees: dict[Address, Store]
    promises: dict[Subject, Promise] = field(default_factory=dict)
    demands: dict[Place, Demand] = field(default_factory=dict)
    balance_wei: int = 0
    burned_wei: int = 0
    events: list[Event] = field(default_factory=list)


def call(vault: Vault, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the vault is as it was.
    """
    tables = dict(vault.promises), dict(vault.demands)
    money = vault.balance_wei, vault.burned_wei
    vault.events = []
    try:
        vault.balance_wei += message.value_wei
        require(message.value_wei == 0 or name in _PAYABLE, Reason.NO_REASON)
        CALLS[name](vault, message, *args)
    except Revert:
        vault.promises, vault.demands = tables
        vault.balance_wei, vault.burned_wei = money
        vault.events = []
        raise
    return tuple(vault.events)


def on_promise(
    vault: Vault,
    message: Message,
    subject: Subject,
    deposit_wei: int,
    answer_blocks: int,
    last_block: int,
) -> None:
    """Promise that whoever demands a part up to a block gets it; the value is the bond."""
    require(subject.referee in vault.referees, Reason.NO_REASON)
    job = vault.referees[subject.referee].jobs.get(subject.job_id)
    require(job is not None and message.sender == job.client, Reason.NOT_CLIENT)
    assert job is not None, "it was required"
    said = {name: getattr(job.terms, name) for name in Subject.__slots__[2:]}
    require(subject == Subject(subject.referee, subject.job_id, **said), Reason.NOT_OF_JOB)
    require(subject not in vault.promises, Reason.PROMISED)
    bond_wei = message.value_wei
    is_sound = (
        MIN_DEPOSIT_WEI <= deposit_wei <= MAX_BOND_WEI
        and MIN_BOND_DEPOSITS * deposit_wei <= bond_wei <= MAX_BOND_WEI
        and 1 <= answer_blocks <= MAX_BLOCKS
        and message.block <= last_block <= message.block + MAX_PROMISE_BLOCKS
    )
    require(is_sound, Reason.ABSURD_PROMISE)
    found = Promise(message.sender, bond_wei, deposit_wei, answer_blocks, last_block)
    vault.promises[subject] = found
    sizes = (bond_wei, deposit_wei, answer_blocks, last_block)
    promise_id = hash_subject(subject)
    vault.events.append(Event("Promised", (promise_id, message.sender, subject, *sizes)))


def on_demand(
    vault: Vault, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Demand an operator (chunk 0) or a chunk of a tensor; the value is the deposit."""
    promise = _get_promise(vault, subject)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    require(message.block <= promise.last_block, Reason.PROMISE_PAST)
    require(message.value_wei == promise.deposit_wei, Reason.WRONG_DEPOSIT)
    chunks = 1 if part == Part.PROGRAM else MAX_CHUNKS
    require(index < subject.count(part) and chunk < chunks, Reason.NO_SUCH_PART)
    place = (subject, part, index, chunk)
    require(place not in vault.demands, Reason.DEMANDED)
    extra_blocks = promise.open_demands // ANSWERS_A_BLOCK
    deadline = message.block + promise.answer_blocks + extra_blocks
    vault.demands[place] = Demand(message.sender, deadline)
    vault.promises[subject] = replace(promise, open_demands=promise.open_demands + 1)
    _announce(vault, "Demanded", message.sender, place, deadline)


def on_show_operator(
    vault: Vault, message: Message, subject: Subject, index: int, encoding: bytes, proof: Proof
) -> None:
    """Show an operator that was demanded; anyone may, and gets the deposit."""
    place = (subject, int(Part.PROGRAM), index, 0)
    _require_open(vault, message, place)
    digest = keccak256(bytes([Tag.OPERATOR]) + encoding)
    where = (index, subject.operators, proof)
    is_shown = is_member(Tag.PROGRAM_NODE, subject.program_top, digest, *where)
    require(is_shown, Reason.NOT_SHOWN)
    _pay_answer(vault, message, place)


def on_show_chunk(
    vault: Vault,
    message: Message,
    subject: Subject,
    part: int,
    index: int,
    chunk: int,
    header: bytes,
    content: bytes,
    chunk_proof: Proof,
    proof: Proof,
) -> None:
    """Show a chunk of a tensor that was demanded; anyone may, and gets the deposit."""
    place = (subject, part, index, chunk)
    _require_open(vault, message, place)
    size = _get_size(header)
    chunks = -(-size // CHUNK_BYTES)
    is_there = chunk < chunks and len(content) == min(size - chunk * CHUNK_BYTES, CHUNK_BYTES)
    require(is_there, Reason.NOT_SHOWN)
    try:
        top = climb(
            Tag.TENSOR_NODE,
            hash_chunk(content),
            chunk,
            chunks,
            0,
            get_height(chunks),
            chunk_proof,
        )
    except CommitmentError as error:
        raise Revert(Reason.NOT_SHOWN) from error
    _require_tensor(subject, part, index, hash_tensor(header, top), proof)
    _pay_answer(vault, message, place)


def on_show_end(
    vault: Vault,
    message: Message,
    subject: Subject,
    part: int,
    index: int,
    chunk: int,
    header: bytes,
    top: Digest,
    proof: Proof,
) -> None:
    """Show that a tensor ends before the chunk that was demanded; anyone may, and is paid."""
    place = (subject, part, index, chunk)
    _require_open(vault, message, place)
    size = _get_size(header)
    is_end = chunk >= -(-size // CHUNK_BYTES) and (size > 0 or top == EMPTY_TOP)
    require(is_end, Reason.NOT_SHOWN)
    _require_tensor(subject, part, index, hash_tensor(header, top), proof)
    _pay_answer(vault, message, place)


def on_break_promise(
    vault: Vault, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Say that a demand was not answered in time; anyone may, and the asker gets the prize."""
    place = (subject, part, index, chunk)
    promise, demand = _get_open(vault, place)
    require(message.block > demand.deadline, Reason.PROMISE_DUE)
    vault.promises[subject] = replace(promise, status=PromiseStatus.BROKEN)
    vault.demands[place] = replace(demand, status=DemandStatus.UNANSWERED)
    lost_wei = promise.bond_wei - promise.prize_wei
    vault.balance_wei -= lost_wei
    vault.burned_wei += lost_wei
    _announce(vault, "Broken", demand.asker, place)


def on_reclaim(
    vault: Vault, message: Message, subject: Subject, part: int, index: int, chunk: int
) -> None:
    """Pay the sender what a broken promise owes it for its demand: the deposit, and the prize."""
    place = (subject, part, index, chunk)
    promise = _get_promise(vault, subject)
    require(promise.status is PromiseStatus.BROKEN, Reason.PROMISE_DUE)
    demand = vault.demands.get(place)
    is_own = demand is not None and demand.asker == message.sender
    is_due = demand is not None and demand.status in {DemandStatus.OPEN, DemandStatus.UNANSWERED}
    require(is_own and is_due, Reason.NO_SUCH_DEMAND)
    assert demand is not None, "it was required"
    is_winner = demand.status is DemandStatus.UNANSWERED
    vault.demands[place] = replace(demand, status=DemandStatus.RETURNED)
    _pay(vault, message, subject, promise.deposit_wei + is_winner * promise.prize_wei)


def on_withdraw(vault: Vault, message: Message, subject: Subject) -> None:
    """Give the client its bond back, once nothing can be demanded any more and nothing is."""
    promise = _get_promise(vault, subject)
    require(message.sender == promise.client, Reason.NOT_CLIENT)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    require(message.block > promise.last_block, Reason.PROMISE_DUE)
    require(promise.open_demands == 0, Reason.STILL_DEMANDED)
    vault.promises[subject] = replace(promise, status=PromiseStatus.WITHDRAWN)
    _pay(vault, message, subject, promise.bond_wei)


def hash_subject(subject: Subject) -> Digest:
    """Return the number of the promise about a subject: the digest of the subject's words."""
    words = [int(subject.referee, 16), *(getattr(subject, n) for n in Subject.__slots__[1:])]
    return keccak256(b"".join(w if isinstance(w, bytes) else w.to_bytes(32, "big") for w in words))


def _get_promise(vault: Vault, subject: Subject) -> Promise:
    require(subject in vault.promises, Reason.NO_SUCH_PROMISE)
    return vault.promises[subject]


def _get_open(vault: Vault, place: Place) -> tuple[Promise, Demand]:
    """Return a promise that is kept so far, and a demand upon it that is open."""
    promise, demand = _get_promise(vault, place[0]), vault.demands.get(place)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    is_open = demand is not None and demand.status is DemandStatus.OPEN
    require(is_open, Reason.NO_SUCH_DEMAND)
    assert demand is not None, "it was required"
    return promise, demand


def _require_open(vault: Vault, message: Message, place: Place) -> None:
    _, demand = _get_open(vault, place)
    require(message.block <= demand.deadline, Reason.PROMISE_PAST)


def _require_tensor(subject: Subject, part: int, index: int, root: Digest, proof: Proof) -> None:
    """Refuse unless a tensor with this root is where the start or the data have it."""
    require(part in {Part.START, Part.DATA}, Reason.NOT_SHOWN)
    is_start, count = part == Part.START, subject.count(part)
    tag = Tag.STATE_NODE if is_start else Tag.DATA_NODE
    try:
        top = climb(tag, root, index, count, 0, get_height(count), proof)
    except CommitmentError as error:
        raise Revert(Reason.NOT_SHOWN) from error
    found = hash_root(Tag.STATE_ROOT, count, top) if is_start else top
    agreed = subject.start_root if is_start else subject.data_top
    require(found == agreed, Reason.NOT_SHOWN)


def _get_size(header: bytes) -> int:
    """Return the bytes of a tensor's elements, from a header that some tensor can have."""
    is_whole = len(header) >= 2 and header[1] <= MAX_RANK and len(header) == 2 + 8 * header[1]
    require(is_whole and header[0] in tuple(DType), Reason.NOT_SHOWN)
    elements = 1
    for at in range(2, len(header), 8):
        size = int.from_bytes(header[at : at + 8], "big")
        elements = min(elements * size, MAX_TENSOR_BYTES)
    require(elements * DType(header[0]).width < MAX_TENSOR_BYTES, Reason.NOT_SHOWN)
    return elements * DType(header[0]).width


def _pay_answer(vault: Vault, message: Message, place: Place) -> None:
    subject, (promise, demand) = place[0], _get_open(vault, place)
    vault.demands[place] = replace(demand, status=DemandStatus.SHOWN)
    vault.promises[subject] = replace(promise, open_demands=promise.open_demands - 1)
    _announce(vault, "Shown", message.sender, place)
    vault.balance_wei -= promise.deposit_wei


def _pay(vault: Vault, message: Message, subject: Subject, amount_wei: int) -> None:
    paid = (hash_subject(subject), message.sender, amount_wei)
    vault.events.append(Event("Paid", paid))
    vault.balance_wei -= amount_wei


def _announce(vault: Vault, name: str, account: Address, place: Place, *more: int) -> None:
    subject, *where = place
    vault.events.append(Event(name, (hash_subject(subject), account, *where, *more)))


CALLS: dict[str, Callable[..., None]] = {
    "promise": on_promise,
    "demand": on_demand,
    "show_operator": on_show_operator,
    "show_chunk": on_show_chunk,
    "show_end": on_show_end,
    "break_promise": on_break_promise,
    "reclaim": on_reclaim,
    "withdraw": on_withdraw,
}
_PAYABLE = frozenset({"promise", "demand"})
