# pragma version 0.4.3
"""
@title The moves from one chunk of a tensor to a verdict
@license Apache-2.0
@notice contracts/model/moves.py is the specification of each.
"""

import descent
import ledger
import matches
import merkle
import phases
import require
import tags
import tensors
import types

uses: descent
uses: ledger
uses: matches

# Segments into which one round divides a fold, and the bytes of the accumulators between them.
FOLD_ARITY: constant(uint256) = 64
MAX_VALUES_BYTES: constant(uint256) = 504


event ChunkOpened:
    job_id: indexed(uint256)
    number: uint256
    chunk: Bytes[types.CHUNK_BYTES]


event ElementPicked:
    job_id: indexed(uint256)
    number: uint256
    element: uint256
    bits: uint256


event FoldOpened:
    job_id: indexed(uint256)
    number: uint256
    values: Bytes[MAX_VALUES_BYTES]


event SegmentPicked:
    job_id: indexed(uint256)
    number: uint256
    low: uint256
    high: uint256


event LeafComputed:
    job_id: indexed(uint256)
    number: uint256
    claimed: uint256
    computed: uint256


event Referred:
    job_id: indexed(uint256)
    number: uint256
    function: uint256


@external
def open_chunk(job_id: uint256, position: bytes32, chunk: Bytes[types.CHUNK_BYTES]):
    """
    @notice Show the bytes of the disputed chunk.
    @param job_id The job.
    @param position The position that the move answers.
    @param chunk The bytes.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.CHUNK)
    require.phase(not turn.opened)
    tensor: uint256 = matches.matches[turn.job_id].tensor
    # A tensor has less than 2^63 bytes, and the chunk begins before its end.
    size: uint256 = unsafe_mul(tensor & matches.U64, tensor >> matches.WIDTH_AT)
    size = unsafe_sub(size, unsafe_mul(turn.index, types.CHUNK_BYTES))
    require.matching_chunk(len(chunk) == min(size, types.CHUNK_BYTES))
    self._require_chunk(turn, chunk)
    turn.opened = True
    matches.save(turn)
    log ChunkOpened(job_id=job_id, number=turn.number, chunk=chunk)


@external
def pick_element(
    job_id: uint256, position: bytes32, chunk: Bytes[types.CHUNK_BYTES], place: uint256
):
    """
    @notice Name the element of the opened chunk that the challenger disputes.
    @param job_id The job.
    @param position The position that the move answers.
    @param chunk The opened bytes.
    @param place The element's place in them.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.CHUNK)
    matches.require_member(turn, turn.challenger)
    require.phase(turn.opened)
    self._require_chunk(turn, chunk)
    tensor: uint256 = matches.matches[turn.job_id].tensor
    width: uint256 = tensor >> matches.WIDTH_AT
    # The width of an element type is not 0; an element's index is below 2^63.
    require.index_in_range(place < unsafe_div(len(chunk), width))
    element: uint256 = unsafe_mul(turn.index, unsafe_div(types.CHUNK_BYTES, width))
    element = unsafe_add(element, place)
    bits: uint256 = tensors.read_element(chunk, unsafe_mul(place, width), width)
    fold_length: uint256 = (tensor >> matches.FOLD_LENGTH_AT) & matches.U64
    matches.matches[turn.job_id].tensor = tensor | element << matches.ELEMENT_AT
    matches.matches[turn.job_id].fold = (
        fold_length << matches.HIGH_AT | bits << matches.HIGH_BITS_AT
    )
    turn.opened = False
    turn.phase = phases.LEAF
    if fold_length > 1:
        turn.phase = phases.FOLD
    matches.save(turn)
    log ElementPicked(job_id=job_id, number=turn.number, element=element, bits=bits)


@external
def open_fold(job_id: uint256, position: bytes32, values: Bytes[MAX_VALUES_BYTES]):
    """
    @notice Post the accumulators at the inner boundaries of the segments.
    @param job_id The job.
    @param position The position that the move answers.
    @param values The accumulators, little-endian.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.FOLD)
    matches.require_member(turn, turn.defender)
    require.phase(not turn.opened)
    segments: uint256 = self._get_segments(matches.matches[turn.job_id].fold)
    width: uint256 = matches.matches[turn.job_id].tensor >> matches.WIDTH_AT
    # A fold that is still open has two segments at least, and 64 at most.
    size: uint256 = unsafe_mul(unsafe_sub(segments, 1), width)
    require.matching_values(len(values) == size)
    turn.opened = True
    matches.save_at(turn, self._hash_values(values))
    log FoldOpened(job_id=job_id, number=turn.number, values=values)


@external
def pick_segment(
    job_id: uint256, position: bytes32, values: Bytes[MAX_VALUES_BYTES], segment: uint256
):
    """
    @notice Name the segment that begins with an agreed accumulator and ends with a disputed one.
    @param job_id The job.
    @param position The position that the move answers.
    @param values The accumulators that were posted.
    @param segment The segment.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.FOLD)
    matches.require_member(turn, turn.challenger)
    require.phase(turn.opened)
    require.matching_values(self._hash_values(values) == turn.node)
    fold: uint256 = matches.matches[turn.job_id].fold
    segments: uint256 = self._get_segments(fold)
    require.index_in_range(segment < segments)
    width: uint256 = matches.matches[turn.job_id].tensor >> matches.WIDTH_AT
    low_bits: uint256 = (fold >> matches.LOW_BITS_AT) & matches.U64
    high_bits: uint256 = fold >> matches.HIGH_BITS_AT
    # Boundary b, for b from 1 on, is the accumulator at (b - 1) * width.
    next: uint256 = unsafe_add(segment, 1)
    if segment != 0:
        start: uint256 = unsafe_mul(unsafe_sub(segment, 1), width)
        low_bits = tensors.read_element(values, start, width)
    if next < segments:
        high_bits = tensors.read_element(values, unsafe_mul(segment, width), width)
    low: uint256 = self._get_boundary(fold, segment)
    high: uint256 = self._get_boundary(fold, next)
    matches.matches[turn.job_id].fold = (
        low
        | high << matches.HIGH_AT
        | low_bits << matches.LOW_BITS_AT
        | high_bits << matches.HIGH_BITS_AT
    )
    turn.opened = False
    # Boundaries ascend.
    if unsafe_sub(high, low) == 1:
        turn.phase = phases.LEAF
    matches.save(turn)
    log SegmentPicked(job_id=job_id, number=turn.number, low=low, high=high)


@external
def leaf(
    job_id: uint256,
    position: bytes32,
    encoding: Bytes[types.MAX_NODE_BYTES],
    openings: DynArray[types.Opening, types.MAX_OPERANDS],
):
    """
    @notice Compute the one scalar operation that is left, from proven operands, and decide.
    @param job_id The job.
    @param position The position that the move answers.
    @param encoding The operator.
    @param openings The proofs of the operands' elements, by the operand's place.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.LEAF)
    self._require_encoding(turn, encoding)
    claimed: uint256 = matches.matches[turn.job_id].fold >> matches.HIGH_BITS_AT
    context: types.Context = self._get_context(turn)
    computed: uint256 = staticcall descent.LEAF.compute(context, encoding, openings)
    log LeafComputed(job_id=job_id, number=turn.number, claimed=claimed, computed=computed)
    matches.end(turn, computed == claimed, phases.BY_SCALAR)


@external
def prove_sink(
    job_id: uint256,
    position: bytes32,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show the output of the sink that the disputed slot of the state should be.
    @param job_id The job.
    @param position The position that the move answers.
    @param root The root of that output.
    @param proof Its proof against the trace.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.SINK)
    scope: uint256 = ledger.jobs[job_id].scope
    operators: uint256 = scope & ledger.U32
    slots: uint256 = (scope >> ledger.STATE_SLOTS_AT) & ledger.U32
    # There is a sink for every slot; operators are at most 2^20.
    index: uint256 = unsafe_add(unsafe_sub(operators, slots), turn.index)
    top: bytes32 = matches.matches[turn.job_id].trace_top
    is_sink: bool = merkle.is_member(
        tags.TRACE_NODE, top, root, index, unsafe_add(operators, 1), proof
    )
    require.matching_proof(is_sink)
    matches.end(turn, root == turn.node, phases.BY_SINK)


@external
def refer(job_id: uint256, position: bytes32, encoding: Bytes[types.MAX_NODE_BYTES]):
    """
    @notice Send a leaf whose scalar function the chain does not know to the bounded verifier.
    @param job_id The job.
    @param position The position that the move answers.
    @param encoding The operator.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.LEAF)
    self._require_encoding(turn, encoding)
    is_known: bool = staticcall descent.LEAF.is_known(encoding)
    require.unknown_function(not is_known)
    turn.phase = phases.VERIFIER
    matches.save(turn)
    function: uint256 = convert(slice(encoding, 1, 1), uint256)
    log Referred(job_id=job_id, number=turn.number, function=function)


@external
def rule(job_id: uint256, position: bytes32, upheld: bool):
    """
    @notice Post the bounded verifier's ruling.
    @param job_id The job.
    @param position The position that the move answers.
    @param upheld Whether the defender's value is right.
    """
    turn: matches.Turn = matches.begin(job_id, position, 1 << phases.VERIFIER)
    require.mover(msg.sender == ledger.jobs[job_id].verifier)
    matches.end(turn, upheld, phases.BY_VERIFIER)


@external
def timeout(job_id: uint256, position: bytes32):
    """
    @notice End a match whose side to move has let its clock run out; anyone may.
    @param job_id The job.
    @param position The position that the move answers.
    """
    turn: matches.Turn = matches.load(job_id)
    require.same_position(position == matches.compute_position(turn))
    require.no_time_left(block.number > turn.deadline)
    if turn.phase == phases.VERIFIER:
        matches.void(job_id)
    else:
        matches.end(turn, matches.is_challengers_turn(turn.phase, turn.opened), phases.BY_CLOCK)


@internal
@view
def _require_chunk(turn: matches.Turn, chunk: Bytes[types.CHUNK_BYTES]):
    require.matching_chunk(tensors.hash_chunk(chunk) == turn.node)


@internal
@view
def _require_encoding(turn: matches.Turn, encoding: Bytes[types.MAX_NODE_BYTES]):
    digest: bytes32 = keccak256(concat(tags.OPERATOR, encoding))
    require.matching_proof(digest == matches.matches[turn.job_id].encoding_digest)


@internal
@pure
def _hash_values(values: Bytes[MAX_VALUES_BYTES]) -> bytes32:
    # The digest under which posted accumulators are remembered.
    return keccak256(concat(tags.FOLD, values))


@internal
@pure
def _get_segments(fold: uint256) -> uint256:
    # The fold goes from a lower to a higher step.
    low: uint256 = fold & matches.U64
    return min(FOLD_ARITY, unsafe_sub((fold >> matches.HIGH_AT) & matches.U64, low))


@internal
@pure
def _get_boundary(fold: uint256, segment: uint256) -> uint256:
    # The fold step at which a segment begins; fold steps are below 2^63, segments at most 64.
    low: uint256 = fold & matches.U64
    length: uint256 = unsafe_sub((fold >> matches.HIGH_AT) & matches.U64, low)
    past: uint256 = unsafe_div(unsafe_mul(length, segment), self._get_segments(fold))
    return unsafe_add(low, past)


@internal
@view
def _get_context(turn: matches.Turn) -> types.Context:
    # What both sides agree on at the leaf.
    scope: uint256 = ledger.jobs[turn.job_id].scope
    fold: uint256 = matches.matches[turn.job_id].fold
    return types.Context(
        trace_top=matches.matches[turn.job_id].trace_top,
        operators=scope & ledger.U32,
        before=matches.matches[turn.job_id].before,
        state_slots=(scope >> ledger.STATE_SLOTS_AT) & ledger.U32,
        data_top=ledger.jobs[turn.job_id].data_top,
        batch_slots=(scope >> ledger.BATCH_SLOTS_AT) & ledger.U32,
        steps=(scope >> ledger.STEPS_AT) & ledger.U64,
        step=(matches.matches[turn.job_id].place >> matches.STEP_AT) & matches.U40,
        element=(matches.matches[turn.job_id].tensor >> matches.ELEMENT_AT) & matches.U64,
        position=fold & matches.U64,
        accumulator=(fold >> matches.LOW_BITS_AT) & matches.U64,
    )
