# pragma version 0.4.3
"""
@title The proof that a job's program is not legal
@license Apache-2.0
@notice Stateless: whoever finds an operator that the leaf contract refuses, or an operand that it
        could never be shown, proves it here, and the referee gives everybody its money back. Of a
        legal program no such proof exists. offchain/programs/legality.py says what is legal, and
        contracts/model/legality.py is the specification of these calls.
"""

import decoder
import ledger
import IReferee
import merkle
import nodes
import tags
import tensors
import types

# The longest encoding that can be shown; any above MAX_NODE_BYTES is not legal.
MAX_SHOWN_BYTES: constant(uint256) = 32_768
# What a tensor's root is made of: a header of any rank, and the top of its chunks.
MAX_OTHER_BYTES: constant(uint256) = 2_080
# Fields of encodings and of headers.
TYPE_OF_OPERATOR: constant(uint256) = 2
SIZES_OF_OPERATOR: constant(uint256) = 6
SIZES_OF_TENSOR: constant(uint256) = 2
# What the leaf contract says of an operator that it refuses.
REFUSAL: constant(String[27]) = "leaf: operator is malformed"
REFUSAL_BYTES: constant(uint256) = 100

LEAF: immutable(address)


@deploy
def __init__(leaf: address):
    """
    @notice Remember who decodes operators.
    @param leaf The leaf contract.
    """
    LEAF = leaf


@external
def prove_operator(
    referee: address,
    job_id: uint256,
    index: uint256,
    encoding: Bytes[MAX_SHOWN_BYTES],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show an operator that is not legal by itself, or that is a sink where none is, or none
            where one is; anyone may. The job is void.
    @param referee The contract that has the job.
    @param job_id The job.
    @param index The operator's place in the program.
    @param encoding The operator.
    @param proof Its proof against the program.
    """
    job: ledger.Job = staticcall IReferee(referee).jobs(job_id)
    self._require_operator(job, index, keccak256(concat(tags.OPERATOR, encoding)), proof)
    if len(encoding) <= types.MAX_NODE_BYTES:
        short: Bytes[types.MAX_NODE_BYTES] = convert(encoding, Bytes[types.MAX_NODE_BYTES])
        if self._is_accepted(short):
            is_sink: bool = convert(slice(short, 0, 1), uint256) == nodes.SINK
            self._require_illegal(is_sink != (index >= self._get_first_sink(job)))
    extcall IReferee(referee).annul(job_id)


@external
def prove_operand(
    referee: address,
    job_id: uint256,
    index: uint256,
    encoding: Bytes[types.MAX_NODE_BYTES],
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
    place: uint256,
    step: uint256,
    is_start: bool,
    other: Bytes[MAX_OTHER_BYTES],
    other_proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show an operand of a legal operator that reads what no earlier operator and no slot
            provides, or a tensor of another type or size; anyone may. The job is void.
    @param referee The contract that has the job.
    @param job_id The job.
    @param index The operator's place in the program.
    @param encoding The operator.
    @param proof Its proof against the program.
    @param place The operand's place in the operator.
    @param step The step whose data are shown, if it reads those.
    @param is_start Whether the start is shown and not the sink, if it reads the state.
    @param other What the operand reads: the operator whose output it is, or the sink of the slot of
           the state; of data and of the start what the tensor's root is made of, its header and its
           top. Ignored if it reads what there is not.
    @param other_proof Its proof against the program, the data or the start.
    """
    job: ledger.Job = staticcall IReferee(referee).jobs(job_id)
    self._require_operator(job, index, nodes.hash_encoding(encoding), proof)
    padded: Bytes[nodes.MAX_PADDED_BYTES] = nodes.pad(encoding)
    op: nodes.Operator = decoder.decode(padded)
    self._require_illegal(place < op.operand_count)
    operand: uint256 = op.operands[place]
    origin: uint256 = nodes.get_origin(operand)
    self._require_illegal(origin != nodes.IMMEDIATE)
    reference: uint256 = nodes.get_reference(operand)
    if reference < self._count_sources(job, index, origin):
        sizes: uint256 = SIZES_OF_OPERATOR
        if origin == nodes.FROM_BATCH or (origin == nodes.FROM_STATE and is_start):
            sizes = SIZES_OF_TENSOR
            root: bytes32 = keccak256(concat(tags.TENSOR_ROOT, other))
            if origin == nodes.FROM_BATCH:
                self._require_datum(job, step, reference, root, other_proof)
            else:
                self._require_start(job, reference, root, other_proof)
        else:
            if origin == nodes.FROM_STATE:
                # Slots are at most 2^16.
                reference = unsafe_add(reference, self._get_first_sink(job))
            digest: bytes32 = keccak256(concat(tags.OPERATOR, other))
            self._require_operator(job, reference, digest, other_proof)
        elements: uint256 = self._count_elements(padded, operand)
        dtype: uint256 = nodes.get_dtype(operand)
        self._require_illegal(not self._is_readable(other, sizes, dtype, elements))
    extcall IReferee(referee).annul(job_id)


@internal
@view
def _is_accepted(encoding: Bytes[types.MAX_NODE_BYTES]) -> bool:
    # Whether the leaf contract takes an operator. That it does not is known only by its own words:
    # a call that has failed for want of gas says nothing.
    is_done: bool = False
    answer: Bytes[REFUSAL_BYTES] = b""
    is_done, answer = raw_call(
        LEAF,
        abi_encode(encoding, method_id=method_id("inspect(bytes)")),
        max_outsize=REFUSAL_BYTES,
        is_static_call=True,
        revert_on_failure=False,
    )
    if is_done:
        return True
    refusal: Bytes[REFUSAL_BYTES] = abi_encode(REFUSAL, method_id=method_id("Error(string)"))
    self._require_illegal(keccak256(answer) == keccak256(refusal))
    return False


@internal
@pure
def _is_readable(
    other: Bytes[MAX_OTHER_BYTES], sizes: uint256, dtype: uint256, elements: uint256
) -> bool:
    # Whether what is shown, in which sizes begin there behind type and rank, is of this type and
    # has so many elements.
    padded: Bytes[MAX_OTHER_BYTES + nodes.PADDING] = concat(empty(bytes32), other)
    if len(other) < sizes:
        return False
    at: uint256 = TYPE_OF_OPERATOR
    if sizes == SIZES_OF_TENSOR:
        at = 0
    # The word that ends with type and rank.
    head: uint256 = convert(extract32(padded, unsafe_add(at, 2)), uint256)
    rank: uint256 = head & nodes.U8
    end: uint256 = unsafe_add(sizes, rank << 3)
    if rank > nodes.MAX_RANK or (head >> 8) & nodes.U8 != dtype or len(other) < end:
        return False
    if sizes == SIZES_OF_TENSOR and len(other) != unsafe_add(end, 32):
        return False
    found: uint256 = 1
    for i: uint256 in range(rank, bound=nodes.MAX_RANK):
        size: bytes32 = extract32(padded, unsafe_add(sizes, unsafe_add(i, 1) << 3))
        found = nodes.multiply_sizes(found, convert(size, uint256) & nodes.U64)
    return found == elements


@internal
@pure
def _count_elements(padded: Bytes[nodes.MAX_PADDED_BYTES], operand: uint256) -> uint256:
    # The elements of the tensor that the rows of an operand's access describe.
    cursor: uint256 = operand >> nodes.ROWS_AT
    product: uint256 = 1
    for _: uint256 in range(nodes.get_row_count(operand), bound=nodes.MAX_ROWS):
        cursor = unsafe_add(cursor, nodes.ROW_BYTES)
        row: uint256 = convert(extract32(padded, cursor), uint256)
        product = nodes.multiply_sizes(product, (row >> 104) & nodes.U64)
        cursor = unsafe_add(cursor, unsafe_mul(nodes.TERM_BYTES, row & nodes.U8))
    return product


@internal
@pure
def _count_sources(job: ledger.Job, index: uint256, origin: uint256) -> uint256:
    # How many tensors an operator may read of an origin.
    if origin == nodes.FROM_NODE:
        return index
    if origin == nodes.FROM_STATE:
        return (job.scope >> ledger.STATE_SLOTS_AT) & ledger.U32
    return (job.scope >> ledger.BATCH_SLOTS_AT) & ledger.U32


@internal
@pure
def _get_first_sink(job: ledger.Job) -> uint256:
    # There is a sink for every slot of the state.
    slots: uint256 = (job.scope >> ledger.STATE_SLOTS_AT) & ledger.U32
    return unsafe_sub(job.scope & ledger.U32, slots)


@internal
@pure
def _require_operator(
    job: ledger.Job, index: uint256, digest: bytes32, proof: DynArray[bytes32, merkle.MAX_HEIGHT]
):
    operators: uint256 = job.scope & ledger.U32
    self._require_proven(
        merkle.is_member(tags.PROGRAM_NODE, job.program_top, digest, index, operators, proof)
    )


@internal
@pure
def _require_datum(
    job: ledger.Job,
    step: uint256,
    slot: uint256,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    steps: uint256 = (job.scope >> ledger.STEPS_AT) & ledger.U64
    slots: uint256 = (job.scope >> ledger.BATCH_SLOTS_AT) & ledger.U32
    self._require_proven(step < steps)
    # Steps are at most 2^32, slots 2^16.
    index: uint256 = unsafe_add(unsafe_mul(step, slots), slot)
    count: uint256 = unsafe_mul(steps, slots)
    self._require_proven(
        merkle.is_member(tags.DATA_NODE, job.data_top, root, index, count, proof)
    )


@internal
@pure
def _require_start(
    job: ledger.Job, slot: uint256, root: bytes32, proof: DynArray[bytes32, merkle.MAX_HEIGHT]
):
    slots: uint256 = (job.scope >> ledger.STATE_SLOTS_AT) & ledger.U32
    is_whole: bool = False
    top: bytes32 = empty(bytes32)
    height: uint256 = merkle.get_height(slots)
    is_whole, top = merkle.climb(tags.STATE_NODE, root, slot, slots, 0, height, proof)
    start: bytes32 = merkle.hash_root(tags.STATE_ROOT, slots, top)
    self._require_proven(is_whole and start == job.start_root)


@internal
@pure
def _require_proven(condition: bool):
    assert condition, "legality: proof does not match"


@internal
@pure
def _require_illegal(condition: bool):
    assert condition, "legality: that is legal"
