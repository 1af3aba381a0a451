# pragma version 0.4.3
"""
@title Demands of parts of what was promised, and answers to them
@license Apache-2.0
@notice Whoever lacks a part of what somebody has promised demands it, with a deposit, which pays
        whoever shows that part here. How a promise is made and how it ends says the contract that
        imports this: availability.vy or delivery.vy. contracts/model/answers.py is the
        specification.
"""

import ledger
import merkle
import nodes
import tags
import tensors
import types

# The deposit of a demand pays 200,000 gas at 50 gwei, which the dearest answer costs at most.
MIN_DEPOSIT_WEI: constant(uint256) = 200_000 * 50 * 10**9
# What is bonded on a promise is so many deposits at least.
MIN_BOND_DEPOSITS: constant(uint256) = 2
MAX_BOND_WEI: constant(uint256) = 2**80 - 1
# The longest time to answer.
MAX_ANSWER_BLOCKS: constant(uint256) = 2**20
# So many demands that are open give one more block to answer the next.
ANSWERS_A_BLOCK: constant(uint256) = 32
MAX_HEADER_BYTES: constant(uint256) = 2 + 8 * nodes.MAX_RANK

# What can be demanded.
PROGRAM: constant(uint256) = 0
START: constant(uint256) = 1
DATA: constant(uint256) = 2

# How a promise stands.
KEPT: constant(uint256) = 1
WITHDRAWN: constant(uint256) = 2
BROKEN: constant(uint256) = 3

# How a demand stands.
OPEN: constant(uint256) = 1
SHOWN: constant(uint256) = 2
UNANSWERED: constant(uint256) = 3
RETURNED: constant(uint256) = 4

# `Promise.head`: client u160 | open_demands u24 | answer_blocks u24 | last_block u40 | status u8.
# Each open demand has a deposit, of 0.01 ether at least: their number comes nowhere near 2^24.
OPEN_AT: constant(uint256) = 160
ANSWER_BLOCKS_AT: constant(uint256) = 184
LAST_BLOCK_AT: constant(uint256) = 208
STATUS_AT: constant(uint256) = 248
# `Promise.money`: what is bonded u80 | the importer's own u48 | deposit_wei u128.
DEPOSIT_AT: constant(uint256) = 128
# A demand: asker u160 | deadline u48 | status u8.
DEADLINE_AT: constant(uint256) = 160
DEMAND_STATUS_AT: constant(uint256) = 208

U24: constant(uint256) = 2**24 - 1
U40: constant(uint256) = 2**40 - 1
U48: constant(uint256) = 2**48 - 1
U128: constant(uint256) = 2**128 - 1
U160: constant(uint256) = 2**160 - 1


# What a promise is about: a job, and what the job says of its program, start and data. Every call
# names all of it, so that on a reorganised chain no call is about another job.
struct Subject:
    referee: address
    job_id: uint256
    operators: uint256
    state_slots: uint256
    batch_slots: uint256
    steps: uint256
    program_top: bytes32
    start_root: bytes32
    data_top: bytes32


struct Promise:
    head: uint256
    money: uint256


event Demanded:
    promise_id: indexed(bytes32)
    asker: indexed(address)
    part: uint256
    index: uint256
    chunk: uint256
    deadline: uint256


event Shown:
    promise_id: indexed(bytes32)
    account: indexed(address)
    part: uint256
    index: uint256
    chunk: uint256


event Broken:
    promise_id: indexed(bytes32)
    asker: indexed(address)
    part: uint256
    index: uint256
    chunk: uint256


event Paid:
    promise_id: indexed(bytes32)
    account: indexed(address)
    amount_wei: uint256


# By the digest of the subject, and by that of the promise and the place of what is demanded.
promises: public(HashMap[bytes32, Promise])
demands: public(HashMap[bytes32, uint256])


@external
@payable
def demand(
    subject: Subject,
    part: uint256,
    index: uint256,
    chunk: uint256,
    header: Bytes[MAX_HEADER_BYTES],
    top: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Demand an operator or a chunk of a tensor; anyone may. The value is the deposit. Every
            tensor has a first chunk; that it has a later one has to be shown.
    @param subject What was promised.
    @param part PROGRAM, START or DATA.
    @param index The place of the operator, of the slot, or of the step's slot among all.
    @param chunk The place of the chunk in the tensor; 0 of an operator.
    @param header The tensor's element type and shape; not read for a first chunk or an operator,
           as all that follows.
    @param top The node over all of the tensor's chunks.
    @param proof The tensor's proof against the start or the data.
    """
    promise_id: bytes32 = self.hash_subject(subject)
    head: uint256 = self.get_promise(promise_id)
    assert head >> STATUS_AT == KEPT, "availability: promise has ended"
    assert block.number <= (head >> LAST_BLOCK_AT) & U40, "availability: too late"
    deposit_wei: uint256 = self.promises[promise_id].money >> DEPOSIT_AT
    assert msg.value == deposit_wei, "availability: value is not the deposit"
    assert index < self._count(subject, part), "availability: no such part"
    if chunk != 0:
        # An operator is no tensor, and so has no later chunk.
        self._require_tensor(subject, part, index, tensors.hash_tensor(header, top), proof)
        chunks: uint256 = self._count_chunks(self._get_size(header))
        assert chunk < chunks, "availability: no such part"
    key: bytes32 = self.hash_place(promise_id, part, index, chunk)
    assert self.demands[key] == 0, "availability: already demanded"
    # Block numbers are below 2^40, all else is below 2^24: the sum fits into 48 bits.
    waiting: uint256 = unsafe_div((head >> OPEN_AT) & U24, ANSWERS_A_BLOCK)
    deadline: uint256 = unsafe_add(block.number, (head >> ANSWER_BLOCKS_AT) & U24)
    deadline = unsafe_add(deadline, waiting)
    word: uint256 = convert(msg.sender, uint256) | deadline << DEADLINE_AT
    self.demands[key] = word | OPEN << DEMAND_STATUS_AT
    # It does not overflow: above.
    self.promises[promise_id].head = unsafe_add(head, 1 << OPEN_AT)
    log Demanded(
        promise_id=promise_id,
        asker=msg.sender,
        part=part,
        index=index,
        chunk=chunk,
        deadline=deadline,
    )


@external
def show_operator(
    subject: Subject,
    index: uint256,
    encoding: Bytes[types.MAX_NODE_BYTES],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show an operator that was demanded; anyone may, and gets the deposit.
    @param subject What was promised.
    @param index The operator's place in the program.
    @param encoding The operator.
    @param proof Its proof against the program.
    """
    promise_id: bytes32 = self.hash_subject(subject)
    key: bytes32 = self._require_open(promise_id, PROGRAM, index, 0)
    self._require_shown(
        merkle.is_member(
            tags.PROGRAM_NODE,
            subject.program_top,
            keccak256(concat(tags.OPERATOR, encoding)),
            index,
            subject.operators,
            proof,
        )
    )
    self._pay_answer(promise_id, key, PROGRAM, index, 0)


@external
def show_chunk(
    subject: Subject,
    part: uint256,
    index: uint256,
    chunk: uint256,
    header: Bytes[MAX_HEADER_BYTES],
    content: Bytes[types.CHUNK_BYTES],
    chunk_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show a chunk of a tensor that was demanded; anyone may, and gets the deposit.
    @param subject What was promised.
    @param part START or DATA.
    @param index The tensor's place there.
    @param chunk The chunk's place in the tensor.
    @param header The tensor's element type and shape.
    @param content The chunk's bytes.
    @param chunk_proof The chunk's proof against the tensor.
    @param proof The tensor's proof against the start or the data.
    """
    promise_id: bytes32 = self.hash_subject(subject)
    key: bytes32 = self._require_open(promise_id, part, index, chunk)
    size: uint256 = self._get_size(header)
    chunks: uint256 = self._count_chunks(size)
    self._require_shown(chunk < chunks)
    rest: uint256 = unsafe_sub(size, unsafe_mul(chunk, types.CHUNK_BYTES))
    self._require_shown(len(content) == min(rest, types.CHUNK_BYTES))
    is_whole: bool = False
    top: bytes32 = empty(bytes32)
    is_whole, top = merkle.climb(
        tags.TENSOR_NODE,
        tensors.hash_chunk(content),
        chunk,
        chunks,
        0,
        merkle.get_height(chunks),
        chunk_proof,
    )
    self._require_shown(is_whole)
    self._require_tensor(subject, part, index, tensors.hash_tensor(header, top), proof)
    self._pay_answer(promise_id, key, part, index, chunk)


@internal
@pure
def is_of_job(subject: Subject, job: ledger.Job) -> bool:
    """
    @notice Whether a job says this of its program, start and data.
    @param subject What a promise is about.
    @param job The job.
    @return Whether it is so.
    """
    scope: uint256 = job.scope
    return (
        subject.operators == scope & ledger.U32
        and subject.state_slots == (scope >> ledger.STATE_SLOTS_AT) & ledger.U32
        and subject.batch_slots == (scope >> ledger.BATCH_SLOTS_AT) & ledger.U32
        and subject.steps == (scope >> ledger.STEPS_AT) & ledger.U64
        and subject.program_top == job.program_top
        and subject.start_root == job.start_root
        and subject.data_top == job.data_top
    )


@internal
@pure
def hash_subject(subject: Subject) -> bytes32:
    """
    @notice Return the number of the promise about a subject.
    @param subject What the promise is about.
    @return The digest of its words.
    """
    return keccak256(abi_encode(subject))


@internal
@pure
def hash_place(promise_id: bytes32, part: uint256, index: uint256, chunk: uint256) -> bytes32:
    """
    @notice Return the number of a demand.
    @param promise_id The promise upon which it is made.
    @param part The part that is demanded.
    @param index The place in it.
    @param chunk The chunk.
    @return The digest of all these.
    """
    return keccak256(abi_encode(promise_id, part, index, chunk))


@internal
@pure
def _count(subject: Subject, part: uint256) -> uint256:
    # How many operators or tensors a part has; none of what is no part. The subject is a job's:
    # steps are at most 2^32, slots 2^16.
    if part == PROGRAM:
        return subject.operators
    if part == START:
        return subject.state_slots
    if part == DATA:
        return unsafe_mul(subject.steps, subject.batch_slots)
    return 0


@internal
@view
def get_promise(promise_id: bytes32) -> uint256:
    """
    @notice Return the head of a promise that exists.
    @param promise_id The promise.
    @return Its packed word, in which the client is not 0.
    """
    head: uint256 = self.promises[promise_id].head
    assert head != 0, "availability: no such promise"
    return head


@internal
@view
def get_open(promise_id: bytes32, key: bytes32) -> uint256:
    """
    @notice Return a demand that is open, upon a promise that is kept so far.
    @param promise_id The promise.
    @param key The number of the demand.
    @return Its packed word.
    """
    head: uint256 = self.get_promise(promise_id)
    assert head >> STATUS_AT == KEPT, "availability: promise has ended"
    word: uint256 = self.demands[key]
    assert word >> DEMAND_STATUS_AT == OPEN, "availability: no such demand"
    return word


@internal
@view
def _require_open(
    promise_id: bytes32, part: uint256, index: uint256, chunk: uint256
) -> bytes32:
    # The key of a demand that is open and can still be answered.
    key: bytes32 = self.hash_place(promise_id, part, index, chunk)
    word: uint256 = self.get_open(promise_id, key)
    assert block.number <= (word >> DEADLINE_AT) & U48, "availability: too late"
    return key


@internal
@pure
def _require_tensor(
    subject: Subject,
    part: uint256,
    index: uint256,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    # Refuse unless a tensor with this root is where the start or the data have it.
    count: uint256 = self._count(subject, part)
    tag: bytes1 = tags.DATA_NODE
    if part == START:
        tag = tags.STATE_NODE
    is_whole: bool = False
    top: bytes32 = empty(bytes32)
    is_whole, top = merkle.climb(tag, root, index, count, 0, merkle.get_height(count), proof)
    self._require_shown(is_whole)
    if part == START:
        self._require_shown(merkle.hash_root(tags.STATE_ROOT, count, top) == subject.start_root)
    else:
        self._require_shown(part == DATA and top == subject.data_top)


@internal
@pure
def _get_size(header: Bytes[MAX_HEADER_BYTES]) -> uint256:
    # The bytes of a tensor's elements, from a header that some tensor can have.
    padded: Bytes[types.MAX_PADDED_HEADER] = concat(empty(bytes32), header)
    self._require_shown(len(header) >= 2)
    # The word that ends with type and rank.
    head: uint256 = convert(extract32(padded, 2), uint256)
    rank: uint256 = head & nodes.U8
    # A rank is at most 255.
    self._require_shown(
        rank <= nodes.MAX_RANK and len(header) == unsafe_add(2, rank << 3)
    )
    width: uint256 = nodes.get_width((head >> 8) & nodes.U8)
    self._require_shown(width != 0)
    elements: uint256 = 1
    end: uint256 = 2
    for _: uint256 in range(rank, bound=nodes.MAX_RANK):
        end = unsafe_add(end, 8)
        size: uint256 = convert(extract32(padded, end), uint256) & nodes.U64
        elements = nodes.multiply_sizes(elements, size)
    # At most 2^63 times 8.
    bytes_of_all: uint256 = unsafe_mul(elements, width)
    self._require_shown(bytes_of_all < nodes.TOO_LARGE)
    return bytes_of_all


@internal
@pure
def _count_chunks(size: uint256) -> uint256:
    # The chunks of a tensor of so many bytes; the one of a tensor without elements is empty.
    return max(tensors.get_chunk_count(size), 1)


@internal
def _pay_answer(
    promise_id: bytes32, key: bytes32, part: uint256, index: uint256, chunk: uint256
):
    # Close an open demand, and pay the sender its deposit, which is gone before the money is.
    self.demands[key] ^= (SHOWN ^ OPEN) << DEMAND_STATUS_AT
    head: uint256 = self.promises[promise_id].head
    # The demand was counted.
    self.promises[promise_id].head = unsafe_sub(head, 1 << OPEN_AT)
    log Shown(promise_id=promise_id, account=msg.sender, part=part, index=index, chunk=chunk)
    raw_call(msg.sender, b"", value=self.promises[promise_id].money >> DEPOSIT_AT)


@internal
def pay(promise_id: bytes32, amount_wei: uint256):
    """
    @notice Pay the sender; what it is owed is gone before the money is.
    @param promise_id The promise that owes it.
    @param amount_wei How much.
    """
    log Paid(promise_id=promise_id, account=msg.sender, amount_wei=amount_wei)
    raw_call(msg.sender, b"", value=amount_wei)


@internal
@pure
def _require_shown(condition: bool):
    assert condition, "availability: proof does not match"
