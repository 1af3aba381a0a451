# pragma version 0.4.3
"""
@title The moves from one chunk of a tensor to a verdict
@license Apache-2.0
@notice What is bound by what has been committed to (a chunk, a leaf) may come from anyone;
        accumulators, and the choice among them, come from the member whose bond they risk.
        contracts/model/verdicts.py is the specification.
"""

import descent
import ledger
import merkle
import phases
import require
import tags
import tensors
import turns
import types

uses: descent
uses: ledger
uses: turns

# Segments into which one round divides a fold.
FOLD_ARITY: constant(uint256) = 64


@external
def reach_chunk(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    dive: types.Dive,
    chunk: Bytes[types.CHUNK_BYTES],
):
    """
    @notice Pick for the last time in a tensor's tree, and show the bytes of the mover's chunk.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param dive The pick.
    @param chunk The bytes.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.TENSOR)
    require.phase(turn.entered == descent.BOTH)
    turn = descent.arrive(turn, tensors.hash_chunk(chunk), dive)
    self._require_chunk(turn, facts, chunk, turn.mine)
    turn.phase = phases.CHUNK
    turns.pass_on(turn, [], chunk)


@external
def pick_element(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    theirs: Bytes[types.CHUNK_BYTES],
    mine: Bytes[types.CHUNK_BYTES],
    values: Bytes[types.MAX_VALUES_BYTES],
):
    """
    @notice Show both chunks, of which the first different element is in dispute.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param theirs The bytes that the other side has shown.
    @param mine The mover's own.
    @param values The mover's accumulators at the inner boundaries of the segments, if the element
           was folded; little-endian.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.CHUNK)
    turns.require_own(turn)
    self._require_chunk(turn, facts, theirs, turn.theirs)
    self._require_chunk(turn, facts, mine, turn.mine)
    width: uint256 = facts.tensor >> turns.WIDTH_AT
    # An element's index is below 2^63, a width is not 0.
    place: uint256 = unsafe_div(tensors.find_difference(mine, theirs), width)
    start: uint256 = unsafe_mul(place, width)
    element: uint256 = unsafe_mul(turn.index, unsafe_div(types.CHUNK_BYTES, width))
    element = unsafe_add(element, place)
    found: types.Facts = facts
    found.tensor |= element << turns.ELEMENT_AT
    fold_length: uint256 = (facts.tensor >> turns.FOLD_LENGTH_AT) & turns.U64
    found.fold = fold_length << turns.HIGH_AT
    found.bits = self._pack_bits(
        turn,
        tensors.read_element(mine, start, width),
        tensors.read_element(theirs, start, width),
    )
    self._narrow(turn, found, values)


@external
def pick_segment(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    theirs: Bytes[types.MAX_VALUES_BYTES],
    segment: uint256,
    bits: uint256,
    values: Bytes[types.MAX_VALUES_BYTES],
):
    """
    @notice Name the segment that begins with an agreed accumulator and ends with a disputed one.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param theirs The accumulators that the other side has posted.
    @param segment The segment.
    @param bits What the mover says of its last accumulator; ignored at the end of the fold's range,
           of which it has spoken already.
    @param values The mover's accumulators at the inner boundaries of the segment's segments.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.FOLD)
    turns.require_own(turn)
    require.matching_values(self._hash_values(theirs) == turn.theirs)
    segments: uint256 = self._get_segments(facts.fold)
    require.index_in_range(segment < segments)
    width: uint256 = facts.tensor >> turns.WIDTH_AT
    low_bits: uint256 = facts.fold >> turns.LOW_BITS_AT
    found: types.Facts = facts
    # Boundary b, for b from 1 on, is the accumulator at (b - 1) * width; segments are at most 64.
    next: uint256 = unsafe_add(segment, 1)
    if segment != 0:
        start: uint256 = unsafe_mul(unsafe_sub(segment, 1), width)
        low_bits = tensors.read_element(theirs, start, width)
    if next < segments:
        require.matching_values(bits >> (width << 3) == 0)
        their_bits: uint256 = tensors.read_element(theirs, unsafe_mul(segment, width), width)
        found.bits = self._pack_bits(turn, bits, their_bits)
    require.difference(found.bits & turns.U64 != found.bits >> turns.BITS_1_AT)
    found.fold = (
        self._get_boundary(facts.fold, segment)
        | self._get_boundary(facts.fold, next) << turns.HIGH_AT
        | low_bits << turns.LOW_BITS_AT
    )
    self._narrow(turn, found, values)


@external
@view
def prepare_leaf(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    side: uint256,
    encoding_digest: bytes32,
) -> types.Ground:
    """
    @notice Return what both sides agree on at a leaf, for the contract that computes it.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param side Whose trees the operands are proven against: they agree on all that is read.
    @param encoding_digest The digest of the operator.
    @return What they agree on.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.LEAF)
    require.index_in_range(side < 2)
    require.matching_proof(encoding_digest == facts.encoding_digest)
    account: address = pair.first
    tops: bytes32[2] = [facts.trace_0, facts.interval_0]
    if side == 1:
        account = pair.second
        tops = [facts.trace_1, facts.interval_1]
    key: uint256 = ledger.get_contender(pair.job_id, account) >> ledger.KEY_AT
    scope: uint256 = ledger.jobs[pair.job_id].scope
    first: uint256 = facts.place & turns.U40
    step: uint256 = (facts.place >> turns.STEP_AT) & turns.U40
    # The state before the step is in the interval, or else in the history; before the first step it
    # is the job's start, a tree of one leaf that nobody claims.
    before: types.Before = types.Before(
        tag=tags.HISTORY_NODE,
        key=key,
        # Where it is looked at, the disputed checkpoint is not the first.
        index=unsafe_sub((facts.place >> turns.CHECKPOINT_AT) & turns.U40, 1),
        count=ledger.get_checkpoints(pair.job_id),
    )
    if step != first:
        before = types.Before(
            tag=tags.INTERVAL_NODE,
            key=ledger.hash_top(tops[1]),
            # The step is after the interval's first.
            index=unsafe_sub(unsafe_sub(step, first), 1),
            count=descent.get_interval_length(pair.job_id, first),
        )
    elif step == 0:
        before.key = ledger.hash_top(ledger.jobs[pair.job_id].start_root)
        before.index = 0
        before.count = 1
    return types.Ground(
        context=types.Context(
            trace_top=tops[0],
            operators=scope & turns.U32,
            has_before=False,
            before=empty(bytes32),
            state_slots=(scope >> ledger.STATE_SLOTS_AT) & turns.U32,
            # The leaf reads it itself, if an operand comes from there.
            data_top=empty(bytes32),
            batch_slots=(scope >> ledger.BATCH_SLOTS_AT) & turns.U32,
            steps=(scope >> ledger.STEPS_AT) & turns.U64,
            step=step,
            element=(facts.tensor >> turns.ELEMENT_AT) & turns.U64,
            position=facts.fold & turns.U64,
            accumulator=facts.fold >> turns.LOW_BITS_AT,
        ),
        before=before,
    )


@external
def decide_leaf(pair: types.Pair, bits: uint256, computed: uint256):
    """
    @notice End a match at its leaf; for the contract that has computed it, from what
            `prepare_leaf` has just told it.
    @param pair The members of the match.
    @param bits What the sides claim, packed as in the facts.
    @param computed What is right.
    """
    require.mover(msg.sender == descent.LEAF.address)
    outcome: uint256 = phases.NEITHER
    if bits & turns.U64 == computed:
        outcome = 0
    elif bits >> turns.BITS_1_AT == computed:
        outcome = 1
    turns.end(pair, phases.BY_SCALAR, outcome, computed)


@external
def prove_sink(
    pair: types.Pair,
    position: types.Position,
    facts: types.Facts,
    side: uint256,
    root: bytes32,
    proof: DynArray[bytes32, merkle.MAX_HEIGHT],
):
    """
    @notice Show the output of the sink that the disputed slot of the state should be.
    @param pair The members of the match.
    @param position Where it stands.
    @param facts What it has found out.
    @param side Whose trace it is proven against: they agree on the sinks.
    @param root The root of that output.
    @param proof Its proof against the trace.
    """
    turn: turns.Turn = turns.begin_with(pair, position, facts, 1 << phases.SINK)
    require.index_in_range(side < 2)
    scope: uint256 = ledger.jobs[pair.job_id].scope
    operators: uint256 = scope & turns.U32
    slots: uint256 = (scope >> ledger.STATE_SLOTS_AT) & turns.U32
    # There is a sink for every slot; operators are at most 2^20.
    index: uint256 = unsafe_add(unsafe_sub(operators, slots), turn.index)
    top: bytes32 = facts.trace_0
    if side == 1:
        top = facts.trace_1
    is_sink: bool = merkle.is_member(
        tags.TRACE_NODE, top, root, index, unsafe_add(operators, 1), proof
    )
    require.matching_proof(is_sink)
    turns.decide(turn, phases.BY_SINK, turn.mine == root, turn.theirs == root)


@external
def rule(pair: types.Pair, position: types.Position, outcome: uint256):
    """
    @notice Post the bounded verifier's ruling.
    @param pair The members of the match.
    @param position Where it stands.
    @param outcome Which side's output is right, or 2 for neither, and where neither side has shown
           what both have agreed on.
    """
    turn: turns.Turn = turns.begin(pair, position, 1 << phases.VERIFIER)
    require.mover(msg.sender == ledger.jobs[pair.job_id].verifier)
    require.index_in_range(outcome <= phases.NEITHER)
    turns.end(pair, phases.BY_VERIFIER, outcome, 0)


@external
def timeout(pair: types.Pair, position: types.Position):
    """
    @notice End a match whose side to move has let its clock run out; anyone may. If it is the
            verifier that is late, both members are out, with their bonds.
    @param pair The members of the match.
    @param position Where it stands.
    """
    turn: turns.Turn = turns.load(pair, position)
    require.no_time_left(block.number > turn.deadline)
    outcome: uint256 = turn.mover ^ 1
    if turn.phase == phases.VERIFIER:
        outcome = phases.UNDECIDED
    turns.end(pair, phases.BY_CLOCK, outcome, 0)


@internal
@pure
def _require_chunk(
    turn: turns.Turn, facts: types.Facts, chunk: Bytes[types.CHUNK_BYTES], node: bytes32
):
    # A tensor has less than 2^63 bytes, and the chunk begins before its end.
    size: uint256 = unsafe_mul(facts.tensor & turns.U64, facts.tensor >> turns.WIDTH_AT)
    size = unsafe_sub(size, unsafe_mul(turn.index, types.CHUNK_BYTES))
    require.matching_chunk(len(chunk) == min(size, types.CHUNK_BYTES))
    require.matching_chunk(tensors.hash_chunk(chunk) == node)


@internal
def _narrow(turn: turns.Turn, facts: types.Facts, values: Bytes[types.MAX_VALUES_BYTES]):
    # Go on with the accumulators that the mover posts, or at the leaf if none are left.
    narrowed: turns.Turn = turns.find(turn, facts)
    # The fold goes from a lower to a higher step.
    length: uint256 = unsafe_sub(
        (facts.fold >> turns.HIGH_AT) & turns.U64, facts.fold & turns.U64
    )
    size: uint256 = 0
    if length > 1:
        narrowed.phase = phases.FOLD
        # Two segments at least, and 64 at most, of elements of eight bytes at most.
        inner: uint256 = unsafe_sub(self._get_segments(facts.fold), 1)
        size = unsafe_mul(inner, facts.tensor >> turns.WIDTH_AT)
        narrowed.mine = self._hash_values(values)
    else:
        # Nothing that the leaf is about has a node.
        narrowed.phase = phases.LEAF
        narrowed.mine = empty(bytes32)
        narrowed.theirs = empty(bytes32)
    require.matching_values(len(values) == size)
    turns.pass_on(narrowed, [], values)


@internal
@pure
def _pack_bits(turn: turns.Turn, mine: uint256, theirs: uint256) -> uint256:
    if turn.mover == 0:
        return mine | theirs << turns.BITS_1_AT
    return theirs | mine << turns.BITS_1_AT


@internal
@pure
def _hash_values(values: Bytes[types.MAX_VALUES_BYTES]) -> bytes32:
    # The digest under which posted accumulators are remembered.
    return keccak256(concat(tags.FOLD, values))


@internal
@pure
def _get_segments(fold: uint256) -> uint256:
    # The fold goes from a lower to a higher step.
    return min(
        FOLD_ARITY, unsafe_sub((fold >> turns.HIGH_AT) & turns.U64, fold & turns.U64)
    )


@internal
@pure
def _get_boundary(fold: uint256, segment: uint256) -> uint256:
    # The fold step at which a segment begins; fold steps are below 2^63, segments at most 64.
    low: uint256 = fold & turns.U64
    length: uint256 = unsafe_sub((fold >> turns.HIGH_AT) & turns.U64, low)
    past: uint256 = unsafe_div(unsafe_mul(length, segment), self._get_segments(fold))
    return unsafe_add(low, past)
