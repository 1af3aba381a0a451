"""Demands of parts of what was promised, and the answers to them.

Whoever lacks a part of what somebody has promised demands it, with a deposit, which pays whoever
shows that part on the chain. How a promise is made and how it ends says the contract that this is
a part of: availability.py or delivery.py.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace

from moot.contracts.model.checks import require
from moot.contracts.model.types import (
    MAX_BLOCKS,
    MAX_BOND_WEI,
    Address,
    Event,
    Job,
    Message,
    Store,
    Terms,
)
from moot.contracts.reasons import DemandStatus, Part, PromiseStatus, Reason, Revert
from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import hash_chunk, hash_tensor
from moot.offchain.commitments.tree import Digest, climb, get_height, hash_root, is_member
from moot.offchain.errors import CommitmentError
from moot.offchain.programs.limits import MAX_RANK, MAX_TENSOR_BYTES

DEPOSIT_GAS = 200_000
"""The deposit of a demand pays so much gas, which the dearest answer costs at most."""
MIN_DEPOSIT_WEI = DEPOSIT_GAS * 50 * 10**9
"""That gas at 50 gwei."""
MIN_BOND_DEPOSITS = 2
"""What is bonded on a promise is so many deposits at least."""
ANSWERS_A_BLOCK = 32
"""So many demands that are open give one more block to answer the next: 6.4 million gas."""

Proof = Sequence[Digest]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a promise is about: a job, and what the job says of its program, start and data.

    What is promised of a result is a subject, too: without a program and data, and with the state
    that the job ends with for its start (`delivery.py`).

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
    """A promise; `open_demands` counts those that nobody has answered or taken back.

    `bond_wei` is what stands for it. `sharers` are those who have promised a result together and
    have not taken their part of it yet; a promise of the client's has none.
    """

    client: Address
    bond_wei: int
    deposit_wei: int
    answer_blocks: int
    last_block: int
    open_demands: int = 0
    status: PromiseStatus = PromiseStatus.KEPT
    sharers: int = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand; `deadline` is the last block in which it can be answered."""

    asker: Address
    deadline: int
    status: DemandStatus = DemandStatus.OPEN


Place = tuple[Subject, int, int, int]
"""What is demanded: of a promise's subject the part, the operator or tensor in it, the chunk."""


@dataclass
class Vault:
    """Everything that the contract remembers, and the referees whose jobs it can read.

    A contract that remembers more is a subclass.
    """

    referees: dict[Address, Store]
    promises: dict[Subject, Promise] = field(default_factory=dict)
    demands: dict[Place, Demand] = field(default_factory=dict)
    balance_wei: int = 0
    burned_wei: int = 0
    events: list[Event] = field(default_factory=list)


def make_call(
    vault: Vault,
    name: str,
    message: Message,
    args: Sequence[object],
    calls: Mapping[str, Callable[..., None]],
    payable: frozenset[str],
) -> tuple[Event, ...]:
    """Make one of a contract's calls and return its events.

    Raises:
        Revert: the call is refused; the vault is as it was.
    """
    vault.events = []
    before = {it.name: copy(getattr(vault, it.name)) for it in fields(vault)}
    try:
        vault.balance_wei += message.value_wei
        require(message.value_wei == 0 or name in payable, Reason.NO_REASON)
        calls[name](vault, message, *args)
    except Revert:
        for key, value in before.items():
            setattr(vault, key, value)
        raise
    return tuple(vault.events)


def on_demand(
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
    """Demand an operator (chunk 0) or a chunk of a tensor; the value is the deposit.

    Every tensor has a first chunk. That it has a later one is shown by what its root is made of.
    """
    promise = get_promise(vault, subject)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    require(message.block <= promise.last_block, Reason.PROMISE_PAST)
    require(message.value_wei == promise.deposit_wei, Reason.WRONG_DEPOSIT)
    require(index < subject.count(part), Reason.NO_SUCH_PART)
    if chunk:
        _require_tensor(subject, part, index, hash_tensor(header, top), proof)
        require(chunk < _count_chunks(_get_size(header)), Reason.NO_SUCH_PART)
    place = (subject, part, index, chunk)
    require(place not in vault.demands, Reason.DEMANDED)
    extra_blocks = promise.open_demands // ANSWERS_A_BLOCK
    deadline = message.block + promise.answer_blocks + extra_blocks
    vault.demands[place] = Demand(message.sender, deadline)
    vault.promises[subject] = replace(promise, open_demands=promise.open_demands + 1)
    announce(vault, "Demanded", message.sender, place, deadline)


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
    chunks = _count_chunks(size)
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


def encode_subject(subject: Subject) -> bytes:
    """Return a subject's words, as calls have them."""
    words = [int(subject.referee, 16), *(getattr(subject, n) for n in Subject.__slots__[1:])]
    return b"".join(w if isinstance(w, bytes) else w.to_bytes(32, "big") for w in words)


def hash_subject(subject: Subject) -> Digest:
    """Return the number of the promise about a subject: the digest of the subject's words."""
    return keccak256(encode_subject(subject))


def get_job(vault: Vault, subject: Subject) -> Job | None:
    """Return the job that a subject names, None if its referee has none of that number."""
    require(subject.referee in vault.referees, Reason.NO_REASON)
    return vault.referees[subject.referee].jobs.get(subject.job_id)


def make_subject(terms: Terms, referee: Address, job_id: int) -> Subject:
    """Return what the promise about a job is about."""
    said = {name: getattr(terms, name) for name in Subject.__slots__[2:]}
    return Subject(referee, job_id, **said)


def get_own_job(vault: Vault, message: Message, subject: Subject) -> Job:
    """Return the job that a subject names and describes, of which the sender is the client."""
    job = get_job(vault, subject)
    require(job is not None and message.sender == job.client, Reason.NOT_CLIENT)
    assert job is not None, "it was required"
    is_of_job = subject == make_subject(job.terms, subject.referee, subject.job_id)
    require(is_of_job, Reason.NOT_OF_JOB)
    return job


def is_sound(bond_wei: int, deposit_wei: int, answer_blocks: int) -> bool:
    """Whether what stands for a promise, a demand's deposit and the time to answer make sense."""
    return (
        MIN_DEPOSIT_WEI <= deposit_wei <= MAX_BOND_WEI
        and MIN_BOND_DEPOSITS * deposit_wei <= bond_wei <= MAX_BOND_WEI
        and 1 <= answer_blocks <= MAX_BLOCKS
    )


def get_promise(vault: Vault, subject: Subject) -> Promise:
    """Return the promise about a subject."""
    require(subject in vault.promises, Reason.NO_SUCH_PROMISE)
    return vault.promises[subject]


def get_open(vault: Vault, place: Place) -> tuple[Promise, Demand]:
    """Return a promise that is kept so far, and a demand upon it that is open."""
    promise, demand = get_promise(vault, place[0]), vault.demands.get(place)
    require(promise.status is PromiseStatus.KEPT, Reason.PROMISE_ENDED)
    is_open = demand is not None and demand.status is DemandStatus.OPEN
    require(is_open, Reason.NO_SUCH_DEMAND)
    assert demand is not None, "it was required"
    return promise, demand


def return_deposit(vault: Vault, message: Message, place: Place) -> Demand:
    """Close the sender's own demand upon a broken promise, and return it as it was."""
    promise = get_promise(vault, place[0])
    require(promise.status is PromiseStatus.BROKEN, Reason.PROMISE_DUE)
    demand = vault.demands.get(place)
    is_own = demand is not None and demand.asker == message.sender
    is_due = demand is not None and demand.status in {DemandStatus.OPEN, DemandStatus.UNANSWERED}
    require(is_own and is_due, Reason.NO_SUCH_DEMAND)
    assert demand is not None, "it was required"
    vault.demands[place] = replace(demand, status=DemandStatus.RETURNED)
    return demand


def break_demand(vault: Vault, message: Message, place: Place) -> tuple[Promise, Demand]:
    """Break a promise by a demand that was not answered in time; return both as they were."""
    promise, demand = get_open(vault, place)
    require(message.block > demand.deadline, Reason.PROMISE_DUE)
    vault.promises[place[0]] = replace(promise, status=PromiseStatus.BROKEN)
    vault.demands[place] = replace(demand, status=DemandStatus.UNANSWERED)
    announce(vault, "Broken", demand.asker, place)
    return promise, demand


def pay(vault: Vault, message: Message, subject: Subject, amount_wei: int) -> None:
    """Pay the sender, and say so."""
    paid = (hash_subject(subject), message.sender, amount_wei)
    vault.events.append(Event("Paid", paid))
    vault.balance_wei -= amount_wei


def announce(vault: Vault, name: str, account: Address, place: Place, *more: int) -> None:
    """Say what has happened to a demand."""
    subject, *where = place
    vault.events.append(Event(name, (hash_subject(subject), account, *where, *more)))


def _require_open(vault: Vault, message: Message, place: Place) -> None:
    _, demand = get_open(vault, place)
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


def _count_chunks(size: int) -> int:
    """Return the chunks of a tensor of so many bytes; that of one without elements is empty."""
    return max(-(-size // CHUNK_BYTES), 1)


def _pay_answer(vault: Vault, message: Message, place: Place) -> None:
    subject, (promise, demand) = place[0], get_open(vault, place)
    vault.demands[place] = replace(demand, status=DemandStatus.SHOWN)
    vault.promises[subject] = replace(promise, open_demands=promise.open_demands - 1)
    announce(vault, "Shown", message.sender, place)
    vault.balance_wei -= promise.deposit_wei


CALLS: dict[str, Callable[..., None]] = {
    "demand": on_demand,
    "show_operator": on_show_operator,
    "show_chunk": on_show_chunk,
}
PAYABLE = frozenset({"demand"})
